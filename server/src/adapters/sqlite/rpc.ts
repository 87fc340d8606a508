/**
 * Typed calls from the store on the main thread to the tables on the writer thread. Each group of tables lists its
 * operations as handlers; the names and types of a call follow from them.
 * Events cross as bytes in transferred buffers, never as objects: moving objects costs more than parsing them
 * (2.3 µs an event against 0.06).
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

/** A call of one of these handlers as it crosses to the writer thread. `id` tells its reply from the others. */
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
