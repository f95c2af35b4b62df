//! Network namespaces without names: each vanishes, with its interfaces, when the test ends in
//! whatever way.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::{Duration, Instant};

use super::peer::PATIENCE;

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Netns {
    handle: File,
}

/// The namespace the calling thread is in.
fn current() -> File {
    File::open("/proc/thread-self/ns/net").expect("procfs")
}

fn enter(handle: &File) {
    // SAFETY: the call takes integers only; it moves this thread alone.
    let result = unsafe { libc::setns(handle.as_raw_fd(), libc::CLONE_NEWNET) };
    assert_eq!(result, 0, "setns: {}", std::io::Error::last_os_error());
}

/// Takes the thread back when dropped, so that a panic does not leave it elsewhere.
struct Return(File);

impl Drop for Return {
    fn drop(&mut self) {
        enter(&self.0);
    }
}

impl Netns {
    /// A new namespace with nothing in it but `lo`; `None`, printed, where that is not permitted.
    pub(crate) fn new() -> Option<Self> {
        let before = current();
        // SAFETY: the call takes integers only; it moves this thread alone.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            let error = std::io::Error::last_os_error();
            println!("passed over: making a network namespace needs root ({error})");
            return None;
        }
        let _back = Return(before);
        Some(Self { handle: current() })
    }

    /// Runs `body` in the namespace: sockets it opens and processes it starts are there.
    pub(crate) fn run<T>(&self, body: impl FnOnce() -> T) -> T {
        let _back = Return(current());
        enter(&self.handle);
        body()
    }

    /// Runs `ip` with these arguments in the namespace and returns what it printed.
    pub(crate) fn ip(&self, arguments: &str) -> String {
        self.command("ip", arguments)
    }

    /// Runs a program in the namespace; it must succeed.
    pub(crate) fn command(&self, program: &str, arguments: &str) -> String {
        let output = self
            .run(|| Command::new(program).args(arguments.split_whitespace()).output())
            .expect("the program is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Another handle on the same namespace.
    pub(crate) fn duplicate(&self) -> Self {
        Self { handle: self.handle.try_clone().expect("a descriptor") }
    }

    /// A path by which `ip link set ... netns` finds the namespace.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.handle.as_raw_fd())
    }

    /// Writes a file under `/proc/sys`, as the namespace sees it.
    pub(crate) fn sysctl(&self, name: &str, value: &str) {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        self.run(|| std::fs::write(&path, value)).unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// A pair `ours` (MAC `02:..:01`) and `peer` (`02:..:02`), both up, in this namespace.
    pub(crate) fn veth(&self, mtu: usize, queues: usize) {
        // No addresses of their own: the wire is silent but for what the test sends.
        self.sysctl("net.ipv6.conf.default.disable_ipv6", "1");
        self.ip(&format!(
            "link add ours address 02:00:00:00:00:01 mtu {mtu} numrxqueues {queues} numtxqueues {queues} \
             type veth peer name peer address 02:00:00:00:00:02 mtu {mtu} numrxqueues {queues} numtxqueues {queues}"
        ));
        self.up(&["peer", "ours"]);
    }

    /// Sets interfaces up and waits until frames can pass: a kernel thread starts their queues
    /// some time after.
    pub(crate) fn up(&self, interfaces: &[&str]) {
        for interface in interfaces {
            self.ip(&format!("link set {interface} up"));
        }
        let deadline = Instant::now() + PATIENCE;
        // A tap does not say.
        let is_up = |interface: &&str| {
            let shown = self.ip(&format!("-brief link show {interface}"));
            matches!(shown.split_whitespace().nth(1), Some("UP" | "UNKNOWN"))
        };
        while !interfaces.iter().all(is_up) {
            assert!(Instant::now() < deadline, "{interfaces:?} do not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
