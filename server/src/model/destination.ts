/** One customer URL with the static headers of its requests. */
export interface Endpoint {
  /** Absolute, `http:` or `https:`. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** Settings of a destination of type `webhooks`. service.md "Destination configuration". */
export interface WebhookSettings {
  /** 1–5. A delivery goes to all of them at once. */
  readonly endpoints: readonly Endpoint[];
  /** Signs every request when set (`X-Signature`). */
  readonly sharedSecret?: string;
  readonly format: 'documented' | 'canonical';
  /** `any`: one accepted request delivers. `each`: every endpoint is a delivery of its own. */
  readonly success: 'any' | 'each';
}

/** Where events go. */
export interface Destination {
  /** Given by the store at first sight of the name, never reused. */
  readonly id: number;
  readonly name: string;
  readonly type: 'webhooks';
  /** Names of the sources it takes events from. */
  readonly sources: readonly string[];
  readonly enabled: boolean;
  readonly settings: WebhookSettings;
  /** Grows with every change of this destination; one attempt uses one version throughout. */
  readonly version: number;
}
