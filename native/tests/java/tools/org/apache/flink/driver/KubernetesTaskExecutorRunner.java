package org.apache.flink.driver;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;

/**
 * Drives the job leader service of a real Flink, whatever its version, as its TaskExecutor does: it adds and removes jobs,
 * and the service's own listener is told leaders. The agent takes this JVM for a TaskManager.
 */
public class KubernetesTaskExecutorRunner {
    private static final String RUNTIME = "org.apache.flink.runtime.";
    private static final String ADDRESS = "pekko.tcp://flink@jm-0:6123/user/rpc/jobmanager_2";

    /** What the service has the leader retrieval tell; a new one for each time that a job is added. */
    private static Object listener;

    /** Each argument: a story about a job of its own, such as `A,none,+,B`, `+` for the job's return to this process. */
    public static void main(String[] stories) throws Exception {
        Object service = service();
        start(service);
        long number = 0;
        for (String story : stories) {
            tell(service, ++number, story.split(","));
        }
        System.out.println("main ends");
    }

    private static void tell(Object service, long number, String[] steps) throws Exception {
        Constructor<?> newJobId = Class.forName("org.apache.flink.api.common.JobID").getConstructor(long.class, long.class);
        Object job = newJobId.newInstance(number, 0L);
        addJob(service, job);
        Method notify = Class.forName(RUNTIME + "leaderretrieval.LeaderRetrievalListener")
                .getMethod("notifyLeaderAddress", String.class, UUID.class);
        for (String step : steps) {
            switch (step) {
                case "+":
                    method(service.getClass(), "removeJob").invoke(service, job);
                    addJob(service, job);
                    break;
                case "none":
                    notify.invoke(listener, null, null);
                    break;
                default:
                    notify.invoke(listener, ADDRESS, new UUID(number, step.charAt(0)));
            }
        }
        method(service.getClass(), "removeJob").invoke(service, job);
    }

    private static Object service() throws Exception {
        Class<?> type;
        try {
            type = Class.forName(RUNTIME + "taskexecutor.DefaultJobLeaderService");
        } catch (ClassNotFoundException e) {
            type = Class.forName(RUNTIME + "taskexecutor.JobLeaderService");
        }
        Constructor<?> constructor = type.getConstructors()[0];
        Class<?>[] types = constructor.getParameterTypes();
        Object[] arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            arguments[i] = types[i].getSimpleName().equals("RetryingRegistrationConfiguration")
                    ? types[i].getMethod("defaultConfiguration").invoke(null)
                    : Listeners.allocate(types[i]);
        }
        return constructor.newInstance(arguments);
    }

    private static void start(Object service) throws Exception {
        Method start = method(service.getClass(), "start");
        Class<?>[] types = start.getParameterTypes();
        Object[] arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            arguments[i] = standIn(types[i]);
        }
        start.invoke(service, arguments);
    }

    private static void addJob(Object service, Object job) throws Exception {
        listener = null;
        Method addJob = method(service.getClass(), "addJob");
        Class<?>[] types = addJob.getParameterTypes();
        Object[] arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            arguments[i] = types[i].isInstance(job) ? job : standIn(types[i]);
        }
        addJob.invoke(service, arguments);
        if (listener == null) {
            throw new IllegalStateException("the service started no retrieval of leaders");
        }
    }

    private static Method method(Class<?> type, String name) {
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name) && !method.isBridge()) {
                method.setAccessible(true);
                return method;
            }
        }
        throw new IllegalStateException(type + " has no method " + name);
    }

    /** Something of a type that does nothing, but that a started retrieval of leaders is where its listener is taken from. */
    private static Object standIn(Class<?> type) throws Exception {
        if (type == String.class) {
            return "stand-in";
        }
        if (type == CompletableFuture.class) {
            return new CompletableFuture<>();
        }
        if (type == boolean.class) {
            return false;
        }
        if (type == int.class) {
            return 0;
        }
        if (!type.isInterface()) {
            return null;
        }
        InvocationHandler handler = (proxy, method, arguments) -> {
            switch (method.getName()) {
                case "hashCode":
                    return System.identityHashCode(proxy);
                case "equals":
                    return proxy == arguments[0];
                case "toString":
                    return "stand-in";
                case "start":
                    listener = arguments[0];
                    return null;
                default:
                    return standIn(method.getReturnType());
            }
        };
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler);
    }
}
