/** A URL of the customer, with the headers that all its requests have. */
export interface Endpoint {
  /** Absolute, `http:` or `https:`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}
