import java.lang.instrument.Instrumentation;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.matcher.ElementMatchers;

/**
 * A Java agent as those that people run beside ours, by Byte Buddy: it puts code of its own at the entry and the exit of the
 * very methods that Leaderwatch hooks. With the argument {@code early} it also loads those classes in its premain, which
 * is before a native agent is told that the VM is there.
 */
public final class ByteBuddyAgent {
    private static final String[] HOOKED = {
        "org.apache.flink.runtime.taskexecutor.DefaultJobLeaderService$JobManagerLeaderListener",
        "org.apache.flink.runtime.taskexecutor.TaskExecutor$ResourceManagerLeaderListener"
    };

    private ByteBuddyAgent() {}

    public static void premain(String argument, Instrumentation instrumentation) throws Exception {
        new AgentBuilder.Default()
                .disableClassFormatChanges()
                .with(AgentBuilder.RedefinitionStrategy.RETRANSFORMATION)
                .type(ElementMatchers.namedOneOf(HOOKED))
                .transform(
                        (builder, type, loader, module, domain) ->
                                builder.visit(
                                        Advice.to(Told.class).on(ElementMatchers.named("notifyLeaderAddress"))))
                .installOn(instrumentation);
        if ("early".equals(argument)) {
            for (String name : HOOKED) {
                Class.forName(name, false, ClassLoader.getSystemClassLoader());
            }
        }
    }

    /** Byte Buddy copies the bodies of these methods into the methods of Flink. */
    public static final class Told {
        private Told() {}

        @Advice.OnMethodEnter
        static void enter() {
            System.out.println("ByteBuddyAgent: notifyLeaderAddress was called");
        }

        @Advice.OnMethodExit(onThrowable = Throwable.class)
        static void exit() {
            System.out.println("ByteBuddyAgent: notifyLeaderAddress is left");
        }
    }
}
