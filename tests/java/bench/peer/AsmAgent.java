package peer;

import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.security.ProtectionDomain;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** The same hook and hand-over as a Java agent that uses ASM. */
public final class AsmAgent {
    private static final String HOOKED = "org/apache/flink/runtime/taskexecutor/DefaultJobLeaderService$JobManagerLeaderListener";

    private AsmAgent() {}

    public static void premain(String argument, Instrumentation instrumentation) {
        Handover.start();
        instrumentation.addTransformer(
                new ClassFileTransformer() {
                    @Override
                    public byte[] transform(ClassLoader loader, String name, Class<?> again, ProtectionDomain domain, byte[] bytes) {
                        return HOOKED.equals(name) ? rewritten(bytes) : null;
                    }
                });
    }

    private static byte[] rewritten(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(
                new ClassVisitor(Opcodes.ASM7, writer) {
                    @Override
                    public MethodVisitor visitMethod(int access, String name, String descriptor, String signature, String[] thrown) {
                        MethodVisitor next = super.visitMethod(access, name, descriptor, signature, thrown);
                        boolean hooked = name.equals("notifyLeaderAddress") && descriptor.equals("(Ljava/lang/String;Ljava/util/UUID;)V");
                        return hooked ? new Entry(next) : next;
                    }
                },
                0);
        return writer.toByteArray();
    }

    private static final class Entry extends MethodVisitor {
        Entry(MethodVisitor next) {
            super(Opcodes.ASM7, next);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            visitVarInsn(Opcodes.ALOAD, 0);
            visitFieldInsn(Opcodes.GETFIELD, HOOKED, "jobId", "Lorg/apache/flink/api/common/JobID;");
            visitVarInsn(Opcodes.ALOAD, 1);
            visitVarInsn(Opcodes.ALOAD, 2);
            visitMethodInsn(Opcodes.INVOKESTATIC, "peer/Handover", "told", "(Ljava/lang/Object;Ljava/lang/String;Ljava/util/UUID;)V", false);
        }
    }
}
