import { type Received, type ReceiverOptions, type RunningReceiver, startReceiver } from './receiver.ts';
import type { SignatureVerdict } from './signature.ts';

const HOST = '127.0.0.1';
const PORT = 4000;

/** Verdicts kept from the arrival of a request until its delivery is settled a moment later. */
const MAX_REMEMBERED = 10_000;

/** The receiver that `dev` starts. It accepts every request and remembers the verdict on each signature. */
export interface LocalReceiver extends RunningReceiver {
  /** Takes the verdict on the last request for this message. A second call returns `undefined`. */
  take(messageId: string): SignatureVerdict | undefined;
}

/** Listens for this machine only, on port 4000 or, if that is taken, on any free port. */
export async function startLocalReceiver(secret: string, forwardTo?: URL): Promise<LocalReceiver> {
  const verdicts = new Map<string, SignatureVerdict>();
  const options = { secret, forwardTo, onRequest: (received: Received) => remember(verdicts, received) };
  const receiver = await onUsualPort(options);
  return {
    ...receiver,
    take(messageId) {
      const verdict = verdicts.get(messageId);
      if (verdict !== undefined) verdicts.delete(messageId);
      return verdict;
    },
  };
}

async function onUsualPort(
  wanted: Pick<ReceiverOptions, 'secret' | 'forwardTo' | 'onRequest'>,
): Promise<RunningReceiver> {
  const accepted = { status: 200, delayMs: 0 };
  const options = { ...wanted, host: HOST, answer: () => accepted };
  try {
    return await startReceiver({ ...options, port: PORT });
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EADDRINUSE')) throw error;
    return startReceiver({ ...options, port: 0 });
  }
}

function remember(verdicts: Map<string, SignatureVerdict>, received: Received): void {
  if (received.webhookId === undefined) return;
  verdicts.set(messageIdOf(received.webhookId), received.signature);
  if (verdicts.size <= MAX_REMEMBERED) return;
  // A map keeps insertion order: the first verdict is the oldest, from a request without a delivery here.
  const oldest = verdicts.keys().next();
  if (!oldest.done) verdicts.delete(oldest.value);
}

/**
 * `Webhook-Id` is the messageId, percent-encoded (spec/specification.md, "Request headers"). Other senders
 * may differ.
 */
function messageIdOf(webhookId: string): string {
  try {
    return decodeURIComponent(webhookId);
  } catch {
    return webhookId;
  }
}
