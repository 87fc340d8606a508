import { type Received, type ReceiverOptions, type RunningReceiver, startReceiver } from './receiver.ts';
import type { SignatureVerdict } from './signature.ts';

const HOST = '127.0.0.1';
const PORT = 4000;

/** Verdicts kept between a request's arrival and its delivery being settled, which is a moment later. */
const MAX_REMEMBERED = 10_000;

/** The receiver that `dev` brings along. It accepts everything and remembers what it made of the signatures. */
export interface LocalReceiver extends RunningReceiver {
  /** The verdict on the last request for this message, once: asking again gives `undefined`. */
  take(messageId: string): SignatureVerdict | undefined;
}

/** Listens on port 4000, or on any free one where another program has that; only for this machine. */
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
  // A map keeps the order of insertion: the first is the oldest, for a request that no delivery here was behind.
  const oldest = verdicts.keys().next();
  if (!oldest.done) verdicts.delete(oldest.value);
}

/**
 * `Webhook-Id` is the messageId, percent-encoded (spec/specification.md, "Request headers"). Other senders do as they like.
 */
function messageIdOf(webhookId: string): string {
  try {
    return decodeURIComponent(webhookId);
  } catch {
    return webhookId;
  }
}
