package org.apache.flink.driver;

/** A main class by whose name the agent takes this JVM for a TaskManager. */
public class YarnTaskExecutorRunner {
    public static void main(String[] classesAndMethods) throws Exception {
        Listeners.call(classesAndMethods);
    }
}
