package org.apache.flink.runtime.dispatcher;

/** No contender, as from Flink 1.10 on. */
public class Dispatcher {
    public void start() {
        System.out.println("started");
    }
}
