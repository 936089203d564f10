package org.apache.flink.driver;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.UUID;

/**
 * Calls listeners of a real Flink, whatever its version, by reflection. Around them is nothing of what they need, so
 * beyond their first instructions they may fail; what must not happen is that the agent makes them fail otherwise.
 */
final class Listeners {
    private static final UUID ID = new UUID(0x0011223344556677L, 1);
    private static final String ADDRESS = "pekko.tcp://flink@jm-0:6123/";

    private Listeners() {}

    /**
     * Each argument: a class, `#`, and the method to call; where the address matters, `#` and the address, `none` for
     * no leader. An abstract class is followed by `%` and the class of an object. What this Flink does not have, class or
     * method, is passed over and said to be absent.
     */
    static void call(String[] classesAndMethods) throws Exception {
        for (String classAndMethod : classesAndMethods) {
            String[] parts = classAndMethod.split("#");
            String[] classes = parts[0].split("%");
            boolean isThere;
            try {
                isThere = call(
                        Class.forName(classes[0]),
                        classes[classes.length - 1],
                        parts[1],
                        parts.length > 2 ? parts[2] : ADDRESS);
            } catch (ClassNotFoundException e) {
                isThere = false;
            }
            if (!isThere) {
                System.out.println("absent " + classAndMethod);
            }
        }
        System.out.println("main ends");
    }

    private static boolean call(Class<?> type, String typeOfObject, String name, String address) throws Exception {
        boolean isLed = !address.equals("none");
        Object listener = null;
        for (Method method : type.getDeclaredMethods()) {
            if (method.getName().equals(name) && !Modifier.isAbstract(method.getModifiers())) {
                if (listener == null) {
                    listener = allocate(Class.forName(typeOfObject));
                    fill(listener);
                }
                Class<?>[] types = method.getParameterTypes();
                Object[] arguments = new Object[types.length];
                for (int i = 0; i < types.length; i++) {
                    Object argument = types[i] == UUID.class ? ID : types[i] == String.class ? address : null;
                    arguments[i] = isLed ? argument : null;
                }
                invoke(method, listener, arguments);
            }
        }
        return listener != null;
    }

    /** Gives an object what leads to a job id, and what listeners lock. */
    private static void fill(Object object) throws Exception {
        for (Field field : object.getClass().getDeclaredFields()) {
            switch (field.getName()) {
                case "jobId":
                case "jobID":
                    set(object, field, jobId());
                    break;
                case "lock":
                    set(object, field, new Object());
                    break;
                case "jobGraph":
                    set(object, field, filled(field.getType()));
                    break;
                case "jobMasterServiceProcessFactory":
                    set(object, field, filled(Class.forName(field.getType().getName().replace(".JobM", ".DefaultJobM"))));
                    break;
                default:
            }
        }
    }

    private static Object filled(Class<?> type) throws Exception {
        Object object = allocate(type);
        fill(object);
        return object;
    }

    private static void invoke(Method method, Object listener, Object... arguments) throws Exception {
        method.setAccessible(true);
        try {
            method.invoke(listener, arguments);
            System.out.println("returned " + method.getName());
        } catch (InvocationTargetException e) {
            System.out.println("threw " + e.getCause().getClass().getName() + " at " + e.getCause().getStackTrace()[0]);
        }
    }

    private static Object jobId() throws Exception {
        Constructor<?> constructor =
                Class.forName("org.apache.flink.api.common.JobID").getConstructor(long.class, long.class);
        return constructor.newInstance(0x0123456789abcdefL, 0xfedcba9876543210L);
    }

    static Object allocate(Class<?> type) throws Exception {
        Class<?> unsafeType = Class.forName("sun.misc.Unsafe");
        Field unsafe = unsafeType.getDeclaredField("theUnsafe");
        unsafe.setAccessible(true);
        return unsafeType.getMethod("allocateInstance", Class.class).invoke(unsafe.get(null), type);
    }

    private static void set(Object object, Field field, Object value) throws Exception {
        field.setAccessible(true);
        field.set(object, value);
    }
}
