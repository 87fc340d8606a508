/** One server-sent event. */
export interface StreamEvent {
  readonly name: string;
  readonly data: string;
}

/**
 * Parses server-sent events from bytes cut at any place (HTML standard, "Server-sent events"). It ignores
 * ids, retry times and comments, which only keep the connection alive.
 */
export class EventStream {
  readonly #decoder = new TextDecoder();
  #rest = '';
  #name = '';
  #data: string[] = [];

  /** Adds bytes and returns the events that they complete. */
  take(chunk: Uint8Array): StreamEvent[] {
    const lines = (this.#rest + this.#decoder.decode(chunk, { stream: true })).split('\n');
    this.#rest = lines.pop() ?? '';
    const events: StreamEvent[] = [];
    for (const line of lines) {
      const event = this.#line(line.endsWith('\r') ? line.slice(0, -1) : line);
      if (event !== undefined) events.push(event);
    }
    return events;
  }

  #line(line: string): StreamEvent | undefined {
    if (line === '') return this.#end();
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#name = value;
    else if (field === 'data') this.#data.push(value);
    return undefined;
  }

  /** Ends the current event. An event without data is dropped. */
  #end(): StreamEvent | undefined {
    const event = { name: this.#name || 'message', data: this.#data.join('\n') };
    const isOne = this.#data.length > 0;
    this.#name = '';
    this.#data = [];
    return isOne ? event : undefined;
  }
}
