package corpus;

import java.nio.file.Files;
import java.nio.file.Paths;

/** Loads and links, so verifies, the classes named in a file, without initialising them. Prints those that fail. */
public class Link {
    public static void main(String[] arguments) throws Exception {
        ClassLoader loader = ClassLoader.getSystemClassLoader();
        int linked = 0;
        for (String name : Files.readAllLines(Paths.get(arguments[0]))) {
            try {
                Class.forName(name, false, loader).getDeclaredMethods();
                linked++;
            } catch (Throwable e) {
                System.out.println("failed " + name + " " + e.getClass().getName());
            }
        }
        System.out.println("linked " + linked);
    }
}
