/** A main class that is no server process of Flink's. */
public class Other {
    public static void main(String[] arguments) {
        System.out.println("main ends");
    }
}
