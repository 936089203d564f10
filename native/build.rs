//! Link options of `libleaderwatch.so`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Never unmapped: HotSpot closes an agent whose Agent_OnAttach fails, while threads, thread-local destructors and
    // the registered native method still point into it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
