//! Two network namespaces, for programs of ours on a wire between them.

use std::process::{Command, Output};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// What the far namespace is to do: run a program, with these words.
type Job = Vec<String>;

/// Two namespaces with a veth pair between them: this thread is in the near one, with 192.0.2.1,
/// and a thread that runs programs in the far one, with 192.0.2.2. They vanish with the threads.
pub(crate) struct Lab {
    jobs: Option<Sender<Job>>,
    outputs: Receiver<Output>,
    far: Option<JoinHandle<()>>,
}

impl Lab {
    /// `None`, printed, where that is not permitted.
    pub(crate) fn enter() -> Option<Self> {
        if !enter_namespace() {
            println!("passed over: making a network namespace needs root");
            return None;
        }
        let (jobs, orders) = channel::<Job>();
        let (results, outputs) = channel();
        let (tell, thread_id) = channel();
        let far = std::thread::spawn(move || {
            assert!(enter_namespace());
            // SAFETY: the call takes nothing.
            tell.send(unsafe { libc::gettid() }).expect("somebody to tell");
            for words in orders {
                let output = match words.split_first() {
                    Some((first, rest)) => Command::new(first).args(rest).output(),
                    None => return,
                };
                results.send(output.expect("the program starts")).expect("somebody to tell");
            }
        });
        let thread = thread_id.recv().expect("the far thread lives");
        let lab = Self { jobs: Some(jobs), outputs, far: Some(far) };
        ip("link add near mtu 4200 type veth peer name far mtu 4200");
        ip(&format!("link set far netns {thread}"));
        for line in ["link set lo up", "link set near up", "addr add 192.0.2.1/24 dev near"] {
            ip(line);
        }
        ip("addr add fd00::1/64 dev near nodad");
        for line in ["link set lo up", "link set far up", "addr add 192.0.2.2/24 dev far"] {
            lab.far_ip(line);
        }
        lab.far_ip("addr add fd00::2/64 dev far nodad");
        Some(lab)
    }

    /// Runs a program over there, to its end.
    pub(crate) fn there(&self, words: &[&str]) -> Output {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        self.jobs.as_ref().expect("a thread").send(words).expect("it lives");
        self.outputs.recv().expect("an output")
    }

    fn far_ip(&self, arguments: &str) {
        let words: Vec<_> = ["ip"].into_iter().chain(arguments.split_whitespace()).collect();
        let output = self.there(&words);
        assert!(output.status.success(), "{arguments}: {output:?}");
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(far) = self.far.take() {
            let _ = far.join();
        }
    }
}

fn enter_namespace() -> bool {
    // SAFETY: the call takes an integer; it moves this thread alone.
    unsafe { libc::unshare(libc::CLONE_NEWNET) == 0 }
}

fn ip(arguments: &str) {
    let output =
        Command::new("ip").args(arguments.split_whitespace()).output().expect("ip is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {errors}");
}
