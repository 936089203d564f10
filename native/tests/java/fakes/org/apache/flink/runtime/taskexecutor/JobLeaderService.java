package org.apache.flink.runtime.taskexecutor;

import java.util.UUID;

/** A listener of a shape that no version of Flink has: without the field that names the job. */
public class JobLeaderService {
    static final class JobManagerLeaderListener {
        public void notifyLeaderAddress(String address, UUID id) {}
    }
}
