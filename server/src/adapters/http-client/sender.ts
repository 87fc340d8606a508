import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { collectGarbage } from '../system/garbage.ts';
import { createHttpClient } from './client.ts';
import { egressRules } from './egress.ts';
import { AnswerBatch, readRequests, type SenderOptions, type ToSender } from './thread-messages.ts';

/**
 * A sender thread: an HTTP client of its own, for the requests of some pools. The file runs on import, so
 * nothing may import it; `threads.ts` starts it. An exception here is a bug and ends the process, as it would
 * on the main thread.
 */
function run(port: MessagePort, { allow, ...options }: SenderOptions): void {
  const client = createHttpClient({ ...options, egress: egressRules(allow) });
  const answers = new AnswerBatch();
  const post = () => {
    const message = answers.take();
    port.postMessage(message, [message.answered.buffer]);
  };
  port.on('message', (message: ToSender) => {
    if (message.kind === 'release') {
      collectGarbage();
      return;
    }
    if (message.kind === 'stop') {
      // Immediates run in their order: the last answers go before the end.
      void client.stop().then(() => setImmediate(() => port.close()));
      return;
    }
    readRequests(message, (id, request) => {
      client.send(request, (answer) => {
        // One message for all that this turn of the event loop reads from sockets.
        if (answers.size === 0) setImmediate(post);
        answers.add(id, answer);
      });
    });
  });
}

run(parentPort!, workerData as SenderOptions);
