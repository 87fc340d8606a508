import type { AlertMessage, AlertRecord, AlertWebhook } from '../model/alert.ts';
import { SecretRedactor } from '../model/secret-redactor.ts';
import { maskUrl } from '../model/secrets.ts';
import { rounded, type Time } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { AnsweredOutcome } from '../ports/destination-type.ts';
import type { Mailer } from '../ports/mailer.ts';
import type { AlertSending } from './contract.ts';
import { mailOf, type Speaker, webhookBody } from './message.ts';

/** Characters of an answer that are shown. */
const ANSWER_EXCERPT = 500;

export interface AlertSenderDependencies {
  readonly mailer: Mailer;
  /** Sends a signed request once, and tells what became of it. Never rejects. */
  readonly post: (
    webhook: AlertWebhook,
    message: { readonly id: string; readonly at: Time; readonly bytes: Buffer },
  ) => Promise<AnsweredOutcome>;
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
    const { post, speaker, clock } = this.#dependencies;
    const bytes = webhookBody(alert, message, speaker);
    const sent = await post(webhook, { id: message.id, at: clock.now(), bytes });
    const { kind, reason, status } = sent.outcome;
    const receiver = maskUrl(webhook.url);
    const latencyMs = rounded(sent.latencyMs);
    if (status === undefined)
      return { kind: 'failed', receiver, answer: `${reason}: ${sent.answer}`, latencyMs };
    return {
      kind: kind === 'accepted' ? 'taken' : 'failed',
      receiver,
      status,
      answer: sent.answer.slice(0, ANSWER_EXCERPT),
      latencyMs,
    };
  }
}

/** The beginning of an answer, without what its receiver knows of secrets. */
function excerpt(answer: string, secrets: readonly string[]): string {
  return new SecretRedactor(secrets).redact(answer).slice(0, ANSWER_EXCERPT);
}

function loginOf({ user, password }: Extract<AlertRecord, { type: 'email' }>['settings']): string[] {
  return password === undefined ? [] : [password, `\0${user ?? ''}\0${password}`];
}
