/** A main class that is no server process of Flink's. */
public class Other {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0) {
            System.out.println("awaits a line");
            System.in.read();
        }
        System.out.println("main ends");
    }
}
