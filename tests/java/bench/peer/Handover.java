package peer;

import java.util.UUID;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/**
 * What both Java agents of the benches do with an announcement: what Leaderwatch does in the hook's thread (compare with the
 * last leader of the seat, hand a change over without waiting), in Java, with a consumer that sleeps until there is one.
 */
public final class Handover {
    private static final ConcurrentMap<Object, UUID> LAST = new ConcurrentHashMap<>();
    private static final BlockingQueue<Object[]> QUEUE = new ArrayBlockingQueue<>(1024);
    public static volatile long consumed;

    private Handover() {}

    public static void start() {
        Thread consumer =
                new Thread(
                        () -> {
                            try {
                                while (true) {
                                    QUEUE.take();
                                    consumed++;
                                }
                            } catch (InterruptedException end) {
                                Thread.currentThread().interrupt();
                            }
                        },
                        "peer");
        consumer.setDaemon(true);
        consumer.start();
    }

    public static void told(Object seat, String address, UUID id) {
        if (id == null) {
            return;
        }
        UUID last = LAST.put(seat, id);
        if (!id.equals(last)) {
            QUEUE.offer(new Object[] {seat, address, id, System.nanoTime()});
        }
    }
}
