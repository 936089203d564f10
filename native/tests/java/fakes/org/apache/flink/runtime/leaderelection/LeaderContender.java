package org.apache.flink.runtime.leaderelection;

/** Shaped like the interface of the same name, as a later version might have it. */
public interface LeaderContender {
    void grantLeadership(String leaderSessionID);
}
