package org.apache.flink.runtime.taskexecutor;

import java.util.UUID;
import org.apache.flink.api.common.JobID;

/** Shaped like Flink's class of that name, in Flink 1.11 and later. */
public class DefaultJobLeaderService {
    static final class JobManagerLeaderListener {
        private final Object lock = new Object();
        private final JobID jobId;
        private UUID currentId;

        JobManagerLeaderListener(JobID jobId) {
            this.jobId = jobId;
        }

        public void notifyLeaderAddress(String address, UUID id) {
            synchronized (lock) {
                if (id == null) {
                    currentId = null;
                } else if (!id.equals(currentId)) {
                    currentId = id;
                }
            }
        }

        /** An overload: not the method that is hooked. */
        public void notifyLeaderAddress(String address) {
            notifyLeaderAddress(address, currentId);
        }
    }
}
