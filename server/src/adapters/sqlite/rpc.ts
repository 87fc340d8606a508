/**
 * Typed calls from the store on the main thread to the tables on the writer thread. Each group of tables
 * lists its operations as handlers; the names and types of a call follow from them. Events cross as bytes in
 * transferred buffers, never as objects: moving objects costs more than parsing them (2.3 µs an event against
 * 0.06).
 */
interface Handler<Message, Answer> {
  /** Writes run in the transaction of the next commit. Reads run after it, outside a transaction. */
  readonly access: 'read' | 'write';
  readonly run: (message: Message) => Answer;
  /** Buffers of the answer that are moved to the main thread instead of copied. */
  readonly buffersOf?: (answer: Answer) => ArrayBuffer[];
}

// biome-ignore lint/suspicious/noExplicitAny: a list of handlers takes any message; `never` would refuse to be called.
type AnyHandler = Handler<any, any>;

export type RpcHandlers<Name extends string = string> = Readonly<Record<Name, AnyHandler>>;

export function write<Answer, Message = undefined>(
  run: (message: Message) => Answer,
): Handler<Message, Answer> {
  return { access: 'write', run };
}

export function read<Answer, Message = undefined>(
  run: (message: Message) => Answer,
  buffersOf?: (answer: Answer) => ArrayBuffer[],
): Handler<Message, Answer> {
  return buffersOf === undefined ? { access: 'read', run } : { access: 'read', run, buffersOf };
}

/** The message that a handler takes. */
export type RpcMessage<Of extends AnyHandler> = Parameters<Of['run']>[0];

/** The answer of a handler. */
export type RpcAnswer<Of extends AnyHandler> = ReturnType<Of['run']>;

/**
 * A call of one of these handlers as it crosses to the writer thread. `id` tells its reply from the others.
 */
export type RpcRequest<Handlers extends RpcHandlers> = {
  [Name in keyof Handlers]: {
    readonly id: number;
    readonly name: Name;
    readonly message: RpcMessage<Handlers[Name]>;
  };
}[keyof Handlers];

/** The reply to the request of the same id. `reason` says what an operator can do. */
export type RpcReply<Handlers extends RpcHandlers> =
  | { readonly kind: 'done'; readonly id: number; readonly answer: RpcAnswer<Handlers[keyof Handlers]> }
  | { readonly kind: 'failed'; readonly id: number; readonly reason: string };

/** How much room an arena has for each kind of array. */
interface ArenaSizes {
  readonly floats: number;
  readonly integers: number;
  readonly bytes: number;
}

/**
 * The arrays of a message, in one buffer that can be transferred: each buffer costs the two threads some
 * microseconds, even if it holds a single number. They are zeros at first.
 */
export class Arena {
  readonly #buffer: ArrayBuffer;
  #floatsEnd = 0;
  #integersEnd: number;
  readonly #bytesFrom: number;

  constructor({ floats, integers, bytes }: ArenaSizes) {
    this.#integersEnd = floats * Float64Array.BYTES_PER_ELEMENT;
    this.#bytesFrom = this.#integersEnd + integers * Uint32Array.BYTES_PER_ELEMENT;
    this.#buffer = new ArrayBuffer(this.#bytesFrom + bytes);
  }

  floats(n: number): Float64Array<ArrayBuffer> {
    const array = new Float64Array(this.#buffer, this.#floatsEnd, n);
    this.#floatsEnd += array.byteLength;
    return array;
  }

  integers(n: number): Uint32Array<ArrayBuffer> {
    const array = new Uint32Array(this.#buffer, this.#integersEnd, n);
    this.#integersEnd += array.byteLength;
    return array;
  }

  integersOf(numbers: readonly number[]): Uint32Array<ArrayBuffer> {
    const array = this.integers(numbers.length);
    array.set(numbers);
    return array;
  }

  /** All the room for bytes. */
  bytes(): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#buffer, this.#bytesFrom);
  }
}
