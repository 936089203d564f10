package org.apache.flink.runtime.metrics.groups;

/** Without any of the methods that tell what a job is called. */
public class TaskManagerMetricGroup {
    public void addNothing() {
        System.out.println("nothing");
    }
}
