import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import java.util.ArrayList;
import java.util.List;

/** Methods of every shape whose positions a rewrite must move. Prints what they return. */
public class Shapes {
    @Target(ElementType.TYPE_USE)
    @Retention(RetentionPolicy.RUNTIME)
    @interface Marked {
        String[] names() default {};
        Inner inner() default @Inner(number = 1);
    }

    @interface Inner {
        long number();
    }

    private int calls;

    /** The loop's head is the first instruction: a jump goes back to position 0. */
    static int loopFromTheStart(int count) {
        while (count < 10) {
            count++;
        }
        return count;
    }

    static String switches(int number, String text) {
        switch (number) {
            case 1: text += "one"; break;
            case 2: text += "two"; break;
            case 3: text += "three"; break;
            default: text += "many";
        }
        switch (text) {
            case "one": return "1";
            case "two": return "2";
            default:
        }
        switch (number) {
            case -1000: return "low";
            case 1000000: return "high";
            default: return text;
        }
    }

    /** A branch between `new` and its constructor: a frame with an uninitialized type. */
    static String uninitialized(boolean choice, String text) {
        return new StringBuilder(choice ? text : new String(choice ? "a" : "b")).append(1L).append(2.0).toString();
    }

    Shapes(boolean choice) {
        this(choice ? 1 : 2);
    }

    Shapes(int calls) {
        this.calls = calls;
    }

    synchronized long tries(Object lock, long wide, double wider) {
        try {
            synchronized (lock) {
                calls += (int) wide;
                if (wider > 1) {
                    throw new IllegalStateException("wider");
                }
            }
        } catch (IllegalStateException | IllegalArgumentException e) {
            calls += e.getMessage().length();
        } finally {
            calls++;
        }
        return calls;
    }

    static <T extends Comparable<T>> int annotated(List<@Marked T> given) {
        @Marked(names = {"a", "b"}) Object first = given.get(0);
        List<@Marked(inner = @Inner(number = 7)) String> texts = new @Marked ArrayList<@Marked String>();
        texts.add((@Marked String) first.toString());
        if (first instanceof @Marked Object) {
            Runnable runnable = () -> { @Marked String inside = "x"; texts.add(inside); };
            runnable.run();
        }
        try {
            texts.get(99);
        } catch (@Marked IndexOutOfBoundsException e) {
            texts.add("caught");
        }
        return texts.size();
    }

    static void nothing() {}

    public static void main(String[] arguments) {
        nothing();
        System.out.println(loopFromTheStart(0) + switches(1, "") + switches(7, "x") + uninitialized(true, "t"));
        System.out.println(new Shapes(true).tries("lock", 3L, 2.0) + " " + new Shapes(false).tries("lock", 3L, 0.5));
        System.out.println(annotated(java.util.Arrays.asList("q", "r")));
    }
}
