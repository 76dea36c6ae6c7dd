//! A worker's standard output and error, drained so that it never waits for a reader.

use std::cell::{Ref, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Child;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use super::tail::Tail;

/// A stream still open this long after the worker's end is held by a grandchild.
const PATIENCE: Duration = Duration::from_millis(500);

/// Both streams and the tasks that read them.
pub(crate) struct Streams {
    stdout: Rc<RefCell<Tail>>,
    stderr: Rc<RefCell<Tail>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Streams {
    pub(crate) fn drain(child: &mut Child) -> Self {
        let (stdout, stderr): (Rc<RefCell<Tail>>, Rc<RefCell<Tail>>) = Default::default();
        let mut tasks = Vec::new();
        if let Some(stream) = child.stdout.take() {
            tasks.push(spawn_local(drain(stream, Rc::clone(&stdout))));
        }
        if let Some(stream) = child.stderr.take() {
            tasks.push(spawn_local(drain(stream, Rc::clone(&stderr))));
        }
        Self {
            stdout,
            stderr,
            tasks,
        }
    }

    /// Waits for the ends of the streams, but not for a grandchild that keeps them open.
    pub(crate) async fn settle(&mut self) {
        for task in self.tasks.drain(..) {
            let abort = task.abort_handle();
            if timeout(PATIENCE, task).await.is_err() {
                abort.abort();
            }
        }
    }

    pub(crate) fn stdout(&self) -> Ref<'_, Tail> {
        self.stdout.borrow()
    }

    pub(crate) fn stderr(&self) -> Ref<'_, Tail> {
        self.stderr.borrow()
    }
}

async fn drain(mut stream: impl AsyncRead + Unpin, tail: Rc<RefCell<Tail>>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(n @ 1..) = stream.read(&mut buffer).await {
        tail.borrow_mut().push(&buffer[..n]);
    }
}
