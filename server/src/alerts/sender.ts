import type { AlertMessage, AlertRecord, AlertWebhook } from '../model/alert.ts';
import { SecretRedactor, secretsOfEndpoint, signaturesIn } from '../model/secret-redactor.ts';
import { maskUrl } from '../model/secrets.ts';
import { rounded, SECOND, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { HttpClient, HttpResult, OutboundRequest } from '../ports/http-client.ts';
import type { Mailer } from '../ports/mailer.ts';
import type { AlertSending } from './contract.ts';
import { mailOf, type Speaker, webhookBody } from './message.ts';

const REQUEST_TIMEOUT = 10 * SECOND;

/** No pool of an endpoint of a destination: those have the ids of endpoints, which are positive. */
const POOL = -1;

/** Characters of an answer that are shown. */
const ANSWER_EXCERPT = 500;

export interface AlertSenderDependencies {
  readonly transport: Pick<HttpClient, 'send'>;
  readonly mailer: Mailer;
  /** The headers of a request with the signatures of the secrets, as destinations send them. */
  readonly headersFor: (
    webhook: AlertWebhook,
    message: { readonly id: string; readonly at: Time; readonly bytes: Buffer },
  ) => Pick<OutboundRequest, 'fixedHeaders' | 'headers'>;
  readonly speaker: Speaker;
  readonly clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** Sends one message of an alert, once. */
export class AlertSender {
  readonly #dependencies: AlertSenderDependencies;

  constructor(dependencies: AlertSenderDependencies) {
    this.#dependencies = dependencies;
  }

  /** Never rejects: every failure is an `AlertSending`. */
  async send(alert: AlertRecord, message: AlertMessage): Promise<AlertSending> {
    const { mailer, speaker, clock } = this.#dependencies;
    if (alert.type === 'webhook') return await this.#post(alert.name, alert.settings, message);
    const begun = clock.monotonic();
    const result = await mailer.send(mailOf(alert.name, message, speaker), alert.settings);
    return {
      kind: result.kind,
      receiver: alert.settings.server,
      answer: excerpt(result.kind === 'taken' ? result.answer : result.detail, loginOf(alert.settings)),
      latencyMs: rounded(clock.monotonic() - begun),
    };
  }

  async #post(alert: string, webhook: AlertWebhook, message: AlertMessage): Promise<AlertSending> {
    const { transport, headersFor, speaker, clock } = this.#dependencies;
    const body = webhookBody(alert, message, speaker);
    const headers = headersFor(webhook, { id: message.id, at: clock.now(), bytes: body });
    const request = { url: webhook.url, ...headers, body, timeout: REQUEST_TIMEOUT, pool: POOL };
    const result = await new Promise<HttpResult>((resolve) => transport.send(request, resolve));
    const receiver = maskUrl(webhook.url);
    const latencyMs = rounded(result.latencyMs);
    if (result.kind === 'failed') {
      return { kind: 'failed', receiver, answer: `${result.reason}: ${result.detail}`, latencyMs };
    }
    const { status, body: answer } = result;
    const kind = status >= 200 && status < 300 ? 'taken' : 'failed';
    const secrets = [...secretsOfEndpoint(webhook, webhook), ...signaturesIn(request.headers)];
    return { kind, receiver, status, answer: excerpt(answer, secrets), latencyMs };
  }
}

/** The beginning of an answer, without what its receiver knows of secrets. */
function excerpt(answer: string, secrets: readonly string[]): string {
  return new SecretRedactor(secrets).redact(answer).slice(0, ANSWER_EXCERPT);
}

function loginOf({ user, password }: Extract<AlertRecord, { type: 'email' }>['settings']): string[] {
  return password === undefined ? [] : [password, `\0${user ?? ''}\0${password}`];
}
