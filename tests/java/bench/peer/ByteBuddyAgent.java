package peer;

import java.lang.instrument.Instrumentation;
import java.util.UUID;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;

/** The same hook and hand-over as a Java agent that uses Byte Buddy. */
public final class ByteBuddyAgent {
    private static final String HOOKED = "org.apache.flink.runtime.taskexecutor.DefaultJobLeaderService$JobManagerLeaderListener";

    private ByteBuddyAgent() {}

    public static void premain(String argument, Instrumentation instrumentation) {
        Handover.start();
        new AgentBuilder.Default()
                .disableClassFormatChanges()
                .type(ElementMatchers.named(HOOKED))
                .transform(
                        (builder, type, loader, module, domain) ->
                                builder.visit(
                                        Advice.to(Told.class)
                                                .on(ElementMatchers.named("notifyLeaderAddress").and(ElementMatchers.takesArguments(2)))))
                .installOn(instrumentation);
    }

    /** Byte Buddy copies the body of this method into Flink's. */
    public static final class Told {
        private Told() {}

        @Advice.OnMethodEnter
        static void enter(@Advice.FieldValue("jobId") Object job, @Advice.Argument(0) String address, @Advice.Argument(1) UUID id) {
            Handover.told(job, address, id);
        }
    }
}
