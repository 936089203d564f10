package early;

import java.lang.instrument.Instrumentation;

/** A Java agent that loads one of Flink's classes before the native agent's VMInit. */
public class Agent {
    public static void premain(String className, Instrumentation instrumentation) throws Exception {
        Class.forName(className, true, ClassLoader.getSystemClassLoader());
    }
}
