//! The signal mask of the agent's threads.

use std::mem::MaybeUninit;
use std::ptr;

/// Signals that a fault of the thread itself raises. Blocked, they would end the process without the JVM's report.
const FAULTS: [libc::c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT];

/// Runs `spawn` with all asynchronous signals blocked in this thread, and restores the mask. Threads that it starts
/// inherit the mask for good, so that the JVM's and Flink's signals never interrupt them.
pub fn with_asynchronous_signals_blocked<T>(spawn: impl FnOnce() -> T) -> T {
    let _restore = block();
    spawn()
}

/// Restores the mask when dropped, so also when `spawn` panics.
struct Restore(Option<libc::sigset_t>);

impl Drop for Restore {
    fn drop(&mut self) {
        if let Some(mask) = &self.0 {
            // SAFETY: `mask` is the set that pthread_sigmask gave back; a null says that the old one is not wanted.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
        }
    }
}

fn block() -> Restore {
    let mut blocked = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigfillset initialises `blocked`, which the calls after it then change and read; pthread_sigmask
    // initialises `before` where it returns 0, and only then it is read.
    unsafe {
        libc::sigfillset(blocked.as_mut_ptr());
        for fault in FAULTS {
            libc::sigdelset(blocked.as_mut_ptr(), fault);
        }
        let result = libc::pthread_sigmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
        Restore((result == 0).then(|| before.assume_init()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_blocked(signal: libc::c_int) -> bool {
        let mut mask = MaybeUninit::uninit();
        // SAFETY: a null set leaves the mask as it is and only asks for it; `mask` is then initialised.
        unsafe {
            assert_eq!(libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), mask.as_mut_ptr()), 0);
            libc::sigismember(mask.as_ptr(), signal) == 1
        }
    }

    #[test]
    fn threads_inherit_the_mask_and_the_caller_gets_its_own_back() {
        let inherited = with_asynchronous_signals_blocked(|| {
            std::thread::spawn(|| (is_blocked(libc::SIGTERM), is_blocked(libc::SIGQUIT), is_blocked(libc::SIGSEGV)))
        });
        assert_eq!(inherited.join().ok(), Some((true, true, false)));
        assert!(!is_blocked(libc::SIGTERM));
    }
}
