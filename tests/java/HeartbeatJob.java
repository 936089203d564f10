import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * The job of the demo and the end-to-end tests: a bounded rate of numbers, checkpointed each second, printed to the
 * TaskManager's standard output. It uses only what is the same in Flink 1.14 and 2.3, so one jar runs on both.
 * Arguments: the job's name, and the pause between two numbers in milliseconds.
 */
public final class HeartbeatJob {
    private HeartbeatJob() {}

    public static void main(String[] args) throws Exception {
        String name = args.length > 0 ? args[0] : "heartbeat";
        long pauseMs = args.length > 1 ? Long.parseLong(args[1]) : 100;
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment();
        environment.enableCheckpointing(1000);
        environment.fromSequence(0, Long.MAX_VALUE).map(new Pace(pauseMs)).print(name);
        environment.execute(name);
    }

    /** Passes each number on after a pause. */
    public static final class Pace implements org.apache.flink.api.common.functions.MapFunction<Long, Long> {
        private static final long serialVersionUID = 1L;
        private final long pauseMs;

        Pace(long pauseMs) {
            this.pauseMs = pauseMs;
        }

        @Override
        public Long map(Long value) throws Exception {
            Thread.sleep(pauseMs);
            return value;
        }
    }
}
