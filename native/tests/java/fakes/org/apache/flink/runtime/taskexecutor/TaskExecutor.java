package org.apache.flink.runtime.taskexecutor;

import java.util.UUID;
import org.apache.flink.runtime.clusterframework.types.ResourceID;

/** Shaped like Flink's class of that name. */
public class TaskExecutor {
    final class ResourceManagerLeaderListener {
        public void notifyLeaderAddress(String address, UUID id) {
            TaskExecutor.this.toString();
        }
    }

    class ResourceManagerHeartbeatListener {
        public void notifyHeartbeatTimeout(ResourceID id) {}

        public void notifyTargetUnreachable(ResourceID id) {}
    }
}
