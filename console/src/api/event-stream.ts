import { ApiError, problem } from './client.ts';
import { sessionHeader } from './session-key.ts';

/** One server-sent event: its name and the text of its data. */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/**
 * Takes the text of an event stream in pieces of any size and gives the events that are complete. Comments
 * and ids are skipped; a piece may end inside a line.
 */
export function eventStreamParser(): (piece: string) => StreamEvent[] {
  let rest = '';
  let name = 'message';
  let data: string[] = [];
  return (piece) => {
    const lines = (rest + piece).split(/\r?\n/);
    rest = lines.pop() ?? '';
    const events: StreamEvent[] = [];
    for (const line of lines) {
      if (line === '') {
        if (data.length > 0) events.push({ name, data: data.join('\n') });
        name = 'message';
        data = [];
      } else if (line.startsWith('event:')) name = line.slice(6).trimStart();
      else if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5));
    }
    return events;
  };
}

export interface StreamListener {
  onEvent(event: StreamEvent): void;
  /** `waiting`: the reason why there is no stream at the moment. The next attempt follows automatically. */
  onState(state: { readonly isOpen: boolean; readonly waiting?: string }): void;
}

const FIRST_DELAY = 500;
const LONGEST_DELAY = 10_000;

/**
 * Reads an event stream until `signal` aborts, and connects again whenever it ends. A refusal (4xx) ends it
 * for good.
 */
export async function followStream(
  url: string,
  listener: StreamListener,
  signal: AbortSignal,
): Promise<void> {
  let delay = FIRST_DELAY;
  while (!signal.aborted) {
    try {
      await readStream(url, listener, signal);
      delay = FIRST_DELAY;
      listener.onState({ isOpen: false, waiting: 'The stream ended; connecting again.' });
    } catch (error) {
      if (signal.aborted) return;
      const isFinal = error instanceof ApiError && error.status >= 400 && error.status < 500;
      const why = error instanceof ApiError ? error.message : 'The server does not answer; trying again.';
      listener.onState({ isOpen: false, waiting: why });
      if (isFinal) return;
    }
    await pause(delay, signal);
    delay = Math.min(delay * 2, LONGEST_DELAY);
  }
}

async function readStream(url: string, listener: StreamListener, signal: AbortSignal): Promise<void> {
  const response = await fetch(url, { headers: { ...sessionHeader(), Accept: 'text/event-stream' }, signal });
  if (!response.ok || response.body === null) {
    throw problem(await response.json().catch(() => undefined), response.status);
  }
  listener.onState({ isOpen: true });
  const parse = eventStreamParser();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    for (const event of parse(value)) listener.onEvent(event);
  }
}

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener(
      'abort',
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
