import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * A Java agent like those that people run beside ours: by ASM, it puts a call of its own at the entry of the very methods
 * that Leaderwatch hooks. With the argument {@code early} it also loads those classes in its premain, which is before a
 * native agent listed later is told that the VM is there.
 */
public final class BeforeAgent {
    private static final String PACKAGE = "org/apache/flink/runtime/taskexecutor/";
    private static final String[] HOOKED = {"DefaultJobLeaderService$JobManagerLeaderListener", "TaskExecutor$ResourceManagerLeaderListener"};

    private BeforeAgent() {}

    public static void premain(String argument, Instrumentation instrumentation) throws Exception {
        instrumentation.addTransformer(new Transformer());
        if ("early".equals(argument)) {
            for (String name : HOOKED) {
                Class.forName((PACKAGE + name).replace('/', '.'), false, ClassLoader.getSystemClassLoader());
            }
        }
    }

    /** Called from the methods. */
    public static void told() {
        System.out.println("BeforeAgent: notifyLeaderAddress was called");
    }

    private static final class Transformer implements ClassFileTransformer {
        @Override
        public byte[] transform(ClassLoader loader, String name, Class<?> again, ProtectionDomain domain, byte[] bytes) {
            boolean wanted = false;
            for (String hooked : HOOKED) {
                wanted |= (PACKAGE + hooked).equals(name);
            }
            if (!wanted) {
                return null;
            }
            ClassReader reader = new ClassReader(bytes);
            ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
            reader.accept(new Entry(writer), 0);
            System.out.println("BeforeAgent: rewrote " + name);
            return writer.toByteArray();
        }
    }

    private static final class Entry extends ClassVisitor {
        Entry(ClassVisitor next) {
            super(Opcodes.ASM7, next);
        }

        @Override
        public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] exceptions) {
            MethodVisitor next = super.visitMethod(access, name, descriptor, signature, exceptions);
            if (!name.equals("notifyLeaderAddress")) {
                return next;
            }
            return new MethodVisitor(Opcodes.ASM7, next) {
                @Override
                public void visitCode() {
                    super.visitCode();
                    super.visitMethodInsn(Opcodes.INVOKESTATIC, "BeforeAgent", "told", "()V", false);
                }
            };
        }
    }
}
