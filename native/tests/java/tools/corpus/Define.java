package corpus;

import java.io.File;
import java.nio.file.Files;
import java.util.Arrays;

/** Defines and links, so verifies, each class file of a folder, each in a loader of its own. Says how each came out. */
public class Define extends ClassLoader {
    private Class<?> define(byte[] classFile) {
        return defineClass(null, classFile, 0, classFile.length);
    }

    public static void main(String[] arguments) {
        File[] files = new File(arguments[0]).listFiles();
        Arrays.sort(files);
        for (File file : files) {
            String outcome = "linked";
            try {
                new Define().define(Files.readAllBytes(file.toPath())).getDeclaredMethods();
            } catch (Throwable e) {
                outcome = e.getClass().getName();
            }
            System.out.println(file.getName() + " " + outcome);
        }
    }
}
