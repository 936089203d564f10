package org.apache.flink.runtime.dispatcher.runner;

import org.apache.flink.runtime.leaderelection.LeaderContender;

/** A contender whose method has another descriptor than those known. */
public class DefaultDispatcherRunner implements LeaderContender {
    @Override
    public void grantLeadership(String leaderSessionID) {
        System.out.println("granted");
    }

    public void revokeLeadership() {
        System.out.println("revoked");
    }
}
