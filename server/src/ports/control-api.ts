/** The body of a response that goes on until one of the two sides ends it. */
export interface ResponseStream {
  /**
   * Called when the head is on its way. Not called when the client has left before, or asks for the head
   * only.
   */
  begin(client: StreamClient): void;
  /** Called after a `write` that returned false, when the client has taken the text. */
  drained(): void;
  /** Called exactly once, whichever side has ended the response. Nothing may be written afterwards. */
  gone(): void;
}

/** The client of a response that goes on. */
export interface StreamClient {
  /**
   * Returns false when the client reads too slowly. Nothing is lost yet, but wait for `drained` before the
   * next write.
   */
  write(text: string): boolean;
  /** Ends the response without waiting for a client that does not read. */
  end(): void;
}
