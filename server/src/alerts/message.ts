import type { AlertChange, AlertMessage } from '../model/alert.ts';
import { defined } from '../model/json.ts';
import { isoTime } from '../model/time.ts';
import type { Mail } from '../ports/mailer.ts';

/** The server that speaks. */
export interface Speaker {
  /** Name of the node. */
  readonly node: string;
  readonly version: string;
}

/**
 * The body of an alert of type `webhook`, by the form that Standard Webhooks suggests.
 * docs/operations/alerting.md.
 */
export function webhookBody(alert: string, message: AlertMessage, { node, version }: Speaker): Buffer {
  const { at, changes } = message;
  const body = {
    type: 'millrace.alert',
    timestamp: isoTime(at),
    data: { alert, node, version, summary: summaryOf(changes), changes: changes.map(changeView) },
  };
  return Buffer.from(JSON.stringify(body));
}

/** A change in a message and in answers of the control API. */
function changeView({ change, condition, destination, since, count, text, hint }: AlertChange) {
  return {
    change,
    condition,
    ...defined({ destination }),
    since: isoTime(since),
    ...defined({ count }),
    text,
    ...defined({ hint }),
  };
}

export function mailOf(alert: string, { id, at, changes }: AlertMessage, { node, version }: Speaker): Mail {
  const paragraphs = changes.map((change) => {
    const hint = change.hint === undefined ? [] : [`${change.hint}.`];
    const since = change.change === 'happened' ? [] : [`Since ${isoTime(change.since)}.`];
    return [`${LABELS[change.change]}: ${change.text}.`, ...since, ...hint].join('\n  ');
  });
  const end = `Alert ${alert} of Millrace ${version} on ${node}, ${isoTime(at)}.`;
  return { id, subject: `Millrace: ${summaryOf(changes)}`, text: `${[...paragraphs, end].join('\n\n')}\n` };
}

const LABELS: Readonly<Record<AlertChange['change'], string>> = {
  started: 'New',
  continues: 'Still',
  ended: 'Over',
  happened: 'New',
};

/** Characters of a summary: mail programs show about as many of a subject. */
const SUMMARY_LENGTH = 120;

/** The worst in a few words; without line breaks, because it is a header of a mail. */
function summaryOf(changes: readonly AlertChange[]): string {
  const first = changes.find(({ change }) => change !== 'ended') ?? changes[0]!;
  const more = changes.length === 1 ? '' : ` and ${changes.length - 1} more`;
  const text = first.text.replace(/[\s\p{Cc}]+/gu, ' ');
  const room = SUMMARY_LENGTH - more.length;
  return `${text.length <= room ? text : `${text.slice(0, room - 1).toWellFormed()}…`}${more}`;
}

/** The message of a test. It says so itself, so that nobody gets up at night. */
export function testMessage(id: string, at: number, madeAt: number): AlertMessage {
  const text = 'this is a test of the alert: nothing is wrong';
  return {
    id,
    at,
    madeAt,
    changes: [{ condition: 'destination_failing', change: 'happened', since: at, text }],
  };
}
