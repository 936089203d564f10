package org.apache.flink.runtime.webmonitor.retriever;

import java.util.UUID;

/** Shaped like the listener of the same name: it serves the Dispatcher and the ResourceManager, and does not know which. */
public class LeaderRetriever {
    public void notifyLeaderAddress(String leaderAddress, UUID leaderSessionID) {
        boolean isEmpty = leaderAddress == null || leaderAddress.equals("");
        System.out.println(isEmpty ? "nobody" : leaderAddress);
    }
}
