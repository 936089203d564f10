package org.apache.flink.runtime.taskexecutor;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.UUID;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.JobID;

/** What the benches measure inside a JVM; by the name of this class the agent takes it for a TaskManager. */
public class TaskManagerRunner {
    private static final String ADDRESS = "pekko.tcp://flink@10.0.0.1:6123/user/rpc/jobmanager_2";
    private static final int WARM_UP = 500;
    private static long ids;

    public static void main(String[] words) throws Exception {
        switch (words[0]) {
            case "nothing":
                break;
            case "classes":
                classes(Paths.get(words[1]));
                break;
            case "first":
                first();
                break;
            case "paced":
                paced(Integer.parseInt(words[1]), words[2].equals("moving"));
                break;
            case "moves":
                moves(Integer.parseInt(words[1]), Long.parseLong(words[2]));
                System.in.read();
                break;
            case "storm":
                storm(Integer.parseInt(words[1]));
                System.in.read();
                break;
            case "soak":
                soak(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                System.in.read();
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
        for (String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
            if (line.startsWith("VmHWM") || line.startsWith("VmPeak")) {
                System.out.println(line);
            }
        }
    }

    private static void classes(Path names) throws Exception {
        long begin = System.nanoTime();
        int loaded = 0;
        for (String name : Files.readAllLines(names)) {
            try {
                Class.forName(name, false, TaskManagerRunner.class.getClassLoader());
                loaded++;
            } catch (LinkageError | ClassNotFoundException missing) {
                // It needs a jar that is not there, as many of Flink's do.
            }
        }
        System.out.println("loaded " + loaded + " in " + (System.nanoTime() - begin));
    }

    /** The first call ever, with all that it makes the JVM do, but for the clock's own first time. */
    private static void first() {
        DefaultJobLeaderService.JobManagerLeaderListener job = job(1);
        UUID id = nextId();
        System.nanoTime();
        long begin = System.nanoTime();
        job.notifyLeaderAddress(ADDRESS, id);
        System.out.println("took " + (System.nanoTime() - begin));
    }

    /** One call a millisecond by a thread that sleeps between: the same leader again, or another one each time. */
    private static void paced(int calls, boolean moving) {
        DefaultJobLeaderService.JobManagerLeaderListener job = job(1);
        UUID id = nextId();
        long[] took = new long[calls];
        for (int call = -WARM_UP; call < calls; call++) {
            UUID next = moving ? nextId() : id;
            LockSupport.parkNanos(1_000_000);
            long begin = System.nanoTime();
            job.notifyLeaderAddress(ADDRESS, next);
            long end = System.nanoTime();
            if (call >= 0) {
                took[call] = end - begin;
            }
        }
        Arrays.sort(took);
        System.out.println("median " + took[calls / 2] + " p99 " + took[calls * 99 / 100] + " max " + took[calls - 1]);
    }

    /** The ResourceManager moves; tells when each call was entered, by the clock that Linux calls monotonic. */
    private static void moves(int calls, long pauseMs) throws Exception {
        TaskExecutor.ResourceManagerLeaderListener listener = new TaskExecutor().new ResourceManagerLeaderListener();
        listener.notifyLeaderAddress(ADDRESS, nextId());
        StringBuilder told = new StringBuilder();
        Thread.sleep(500);
        for (int call = 0; call < calls; call++) {
            UUID id = nextId();
            if (pauseMs > 0) {
                Thread.sleep(pauseMs);
            }
            told.append("moved ").append(id).append(' ').append(System.nanoTime()).append('\n');
            listener.notifyLeaderAddress(ADDRESS, id);
        }
        System.out.print(told);
        System.out.println("ready");
    }

    /** So many jobs are led, and then all of them by another one at once. */
    private static void storm(int jobs) throws Exception {
        DefaultJobLeaderService.JobManagerLeaderListener[] listeners = new DefaultJobLeaderService.JobManagerLeaderListener[jobs];
        UUID old = nextId();
        for (int job = 0; job < jobs; job++) {
            listeners[job] = job(job);
            listeners[job].notifyLeaderAddress(ADDRESS, old);
        }
        System.out.println("led");
        System.in.read();
        UUID next = nextId();
        long begin = System.nanoTime();
        for (DefaultJobLeaderService.JobManagerLeaderListener listener : listeners) {
            listener.notifyLeaderAddress(ADDRESS, next);
        }
        System.out.println("moved " + begin + " " + System.nanoTime());
    }

    /** One job after the other gets another leader, one a second. */
    private static void soak(int seconds, int jobs) throws Exception {
        long begin = System.nanoTime();
        for (int second = 0; second < seconds; second++) {
            // As Flink does it: after a loss of its connection a new listener is told.
            job(second % jobs).notifyLeaderAddress(ADDRESS, nextId());
            Thread.sleep(Math.max(0, (second + 1) * 1000L - (System.nanoTime() - begin) / 1_000_000));
        }
        System.out.println("moved");
    }

    private static DefaultJobLeaderService.JobManagerLeaderListener job(int number) {
        return new DefaultJobLeaderService.JobManagerLeaderListener(new JobID(number, 0x0123456789abcdefL));
    }

    private static UUID nextId() {
        return new UUID(0x0011223344556677L, ++ids);
    }
}
