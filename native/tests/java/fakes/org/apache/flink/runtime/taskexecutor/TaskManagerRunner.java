package org.apache.flink.runtime.taskexecutor;

import java.io.File;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.UUID;
import org.apache.flink.api.common.JobID;
import org.apache.flink.runtime.clusterframework.types.ResourceID;

/** A main class by whose name the agent takes this JVM for a TaskManager. Does what its arguments say, in order. */
public class TaskManagerRunner {
    private static int ids;
    private static UUID id;

    public static void main(String[] steps) throws Exception {
        DefaultJobLeaderService.JobManagerLeaderListener job =
                new DefaultJobLeaderService.JobManagerLeaderListener(
                        new JobID(0x0123456789abcdefL, 0xfedcba9876543210L));
        TaskExecutor taskExecutor = new TaskExecutor();
        TaskExecutor.ResourceManagerLeaderListener resourceManager =
                taskExecutor.new ResourceManagerLeaderListener();
        TaskExecutor.ResourceManagerHeartbeatListener heartbeat =
                taskExecutor.new ResourceManagerHeartbeatListener();
        for (String step : steps) {
            switch (step) {
                case "leader":
                    job.notifyLeaderAddress("pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2", nextId());
                    break;
                case "same-leader":
                    job.notifyLeaderAddress("pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2", id);
                    break;
                case "none":
                    job.notifyLeaderAddress(null, null);
                    break;
                case "none-with-address":
                    job.notifyLeaderAddress("pekko.tcp://flink@jm-0:6123/", null);
                    break;
                case "no-address":
                    job.notifyLeaderAddress(null, nextId());
                    break;
                case "empty-address":
                    job.notifyLeaderAddress("", nextId());
                    break;
                case "long-address":
                    job.notifyLeaderAddress(repeat("x", 1000), nextId());
                    break;
                case "wide-address":
                    job.notifyLeaderAddress("j\u00f6b-\u30de\u30cd-\ud83e\udd80-\ud83e!", nextId());
                    break;
                case "cut-pair":
                    job.notifyLeaderAddress(repeat("\u30de", 255) + "\ud83e\udd80", nextId());
                    break;
                case "overload":
                    job.notifyLeaderAddress("overload");
                    break;
                case "no-job":
                    new DefaultJobLeaderService.JobManagerLeaderListener(null).notifyLeaderAddress("a", nextId());
                    break;
                case "resource-manager":
                    resourceManager.notifyLeaderAddress("pekko.tcp://flink@jm-0:6123/user/rpc/resourcemanager_0", nextId());
                    break;
                case "heartbeat-timeout":
                    heartbeat.notifyHeartbeatTimeout(new ResourceID());
                    break;
                case "unreachable":
                    heartbeat.notifyTargetUnreachable(new ResourceID());
                    break;
                case "another-shape":
                    new JobLeaderService.JobManagerLeaderListener().notifyLeaderAddress("a", nextId());
                    break;
                case "another-loader":
                    inAnotherLoader();
                    break;
                case "many-threads":
                    inManyThreads();
                    break;
                case "await-line":
                    System.out.println("awaits a line");
                    System.in.read();
                    break;
                case "out-of-memory":
                    System.out.println(new long[Integer.MAX_VALUE / 2].length);
                    break;
                case "exit":
                    System.exit(7);
                    break;
                default:
                    throw new IllegalArgumentException(step);
            }
        }
        System.out.println("main ends");
    }

    /** The listener's class again, from a class loader that is not the system's. */
    private static void inAnotherLoader() throws Exception {
        URL[] classPath = {new File(System.getProperty("java.class.path")).toURI().toURL()};
        try (URLClassLoader loader = new URLClassLoader(classPath, null)) {
            Class<?> listener =
                    loader.loadClass("org.apache.flink.runtime.taskexecutor.JobLeaderService$JobManagerLeaderListener");
            Constructor<?> constructor = listener.getDeclaredConstructor();
            constructor.setAccessible(true);
            Method notify = listener.getDeclaredMethod("notifyLeaderAddress", String.class, UUID.class);
            notify.setAccessible(true);
            notify.invoke(constructor.newInstance(), "a", nextId());
        }
    }

    /** Each call for a job of its own. */
    private static void inManyThreads() throws Exception {
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            int number = i;
            threads[i] =
                    new Thread(
                            () -> {
                                for (int call = 0; call < 250; call++) {
                                    new DefaultJobLeaderService.JobManagerLeaderListener(new JobID(number, call))
                                            .notifyLeaderAddress("a", new UUID(number, call));
                                }
                            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static synchronized UUID nextId() {
        id = new UUID(0x0011223344556677L, ++ids);
        return id;
    }

    private static String repeat(String text, int times) {
        StringBuilder repeated = new StringBuilder();
        for (int i = 0; i < times; i++) {
            repeated.append(text);
        }
        return repeated.toString();
    }
}
