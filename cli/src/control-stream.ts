import { type ControlAddress, replyIn, targetOf, whyNoAnswer } from './control-api.ts';

export type StreamReply =
  | { readonly kind: 'open'; readonly chunks: AsyncIterable<Uint8Array> }
  /** `message` is one line for the person at the terminal. `passing`: the request may succeed a little later. */
  | { readonly kind: 'failed'; readonly message: string; readonly passing: boolean };

/** Milliseconds to wait for the head of the answer. The body has no limit. */
const PATIENCE_MS = 10_000;

/** Opens a streamed answer of the control API. It lasts until `signal` or the server ends it. Never rejects. */
export async function openControlStream(
  address: ControlAddress,
  path: string,
  { query, signal }: { readonly query: Readonly<Record<string, string>>; readonly signal: AbortSignal },
): Promise<StreamReply> {
  const target = targetOf(address, path);
  for (const [name, value] of Object.entries(query)) target.searchParams.set(name, value);
  const { token } = address;
  const patience = new AbortController();
  const timer = setTimeout(() => patience.abort(), PATIENCE_MS);
  try {
    const response = await fetch(target, {
      headers: {
        accept: 'text/event-stream',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      redirect: 'manual',
      signal: AbortSignal.any([signal, patience.signal]),
    });
    const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true;
    if (response.status === 200 && isStream && response.body !== null) {
      return { kind: 'open', chunks: response.body };
    }
    const { status } = response;
    const reply = replyIn({ status, text: await response.text() }, address, target);
    // The answer is no stream and comes from another program.
    const message = reply.kind === 'failed' ? reply.message : `${target.href} did not answer with a stream`;
    return { kind: 'failed', message, passing: status === 429 || status >= 500 };
  } catch (error) {
    return { kind: 'failed', message: whyNoAnswer(address, error), passing: true };
  } finally {
    clearTimeout(timer);
  }
}
