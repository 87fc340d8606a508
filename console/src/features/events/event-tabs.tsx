import { CodeBlock } from '../../ui/code-block.tsx';
import { Select } from '../../ui/controls.tsx';
import { EmptyState, Notice } from '../../ui/empty-state.tsx';
import { duration } from '../../ui/format.ts';
import { JsonView } from '../../ui/json-view.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { Clock } from '../../ui/time.tsx';
import { visibleText } from '../../ui/visible-text.ts';
import type { AcceptedEvent, Attempt } from './queries.ts';
import { reasonSentence, resultWord } from './reasons.ts';

interface EventTabsProps {
  readonly entry: AcceptedEvent;
  readonly tab: string;
  /** Number of the attempt that is shown, in the order of the list; the last without. */
  readonly attempt: string | undefined;
  readonly onChange: (change: { readonly tab?: string; readonly attempt?: string }) => void;
}

interface Try {
  readonly label: string;
  readonly destination: string;
  readonly attempt: Attempt;
}

/** What was received, what was sent, what was answered. */
export function EventTabs({ entry, tab, attempt, onChange }: EventTabsProps) {
  const tries = entry.deliveries.flatMap(({ destination, attempts }) =>
    attempts.map((one, index) => ({
      label: `${destination} · try ${index + 1} of ${attempts.length}`,
      destination,
      attempt: one,
    })),
  );
  const at = attempt === undefined ? tries.length - 1 : Number(attempt);
  const shown = tries[at] ?? tries.at(-1);
  return (
    <Tabs
      label="Received, sent, answered"
      value={tab}
      onChange={(value) => onChange({ tab: value })}
      aside={
        tab !== 'received' &&
        tries.length > 0 && (
          <Select
            aria-label="Which try"
            value={String(at)}
            onChange={(value) => onChange({ attempt: value })}
            options={tries.map(({ label }, index) => ({ value: String(index), label }))}
          />
        )
      }
      tabs={[
        {
          value: 'received',
          label: 'Received',
          content: <JsonView label="the event as it is stored" value={entry.event} />,
        },
        { value: 'sent', label: 'Sent', content: <Sent entry={entry} shown={shown} /> },
        { value: 'answered', label: 'Answered', content: <Answered shown={shown} /> },
      ]}
    />
  );
}

function Sent({ entry, shown }: { readonly entry: AcceptedEvent; readonly shown: Try | undefined }) {
  if (shown === undefined) return <NothingYet />;
  const { attempt, destination } = shown;
  return (
    <>
      <div className="box">
        <dl className="kv mono pad">
          <dt>POST</dt>
          <dd>{visibleText(attempt.endpoint)}</dd>
          <dt>At</dt>
          <dd>
            <Clock at={attempt.startedAt} />
          </dd>
          <dt>User-Agent</dt>
          <dd>Millrace/1.0</dd>
          <dt>Content-Type</dt>
          <dd>application/json</dd>
          <dt>Webhook-Id</dt>
          <dd>{visibleText(webhookId(entry.event.messageId))}</dd>
        </dl>
      </div>
      <p className="soft">
        The body is the stored event with the fields of its type, the same bytes on every try. X-Signature is
        the HMAC-SHA1 of exactly these bytes with the shared secret of {destination}. Verify it yourself, with
        the body as the endpoint got it:
      </p>
      <CodeBlock
        code={'printf %s "$BODY" | openssl dgst -sha1 -hmac "$SECRET"'}
        label="Command that computes a signature"
      />
    </>
  );
}

/** As the header has it: every byte outside visible ASCII, and %, percent-encoded. */
function webhookId(messageId: string): string {
  return messageId.replace(/[^\x21-\x7e]|%/gu, (character) => encodeURIComponent(character));
}

function Answered({ shown }: { readonly shown: Try | undefined }) {
  if (shown === undefined) return <NothingYet />;
  const { outcome, reason, status, latencyMs, answer } = shown.attempt;
  return (
    <>
      {outcome !== 'accepted' && (
        <Notice tone={outcome === 'refused' ? 'bad' : 'warn'}>{reasonSentence(reason)}</Notice>
      )}
      <div className="box">
        <dl className="kv mono pad">
          <dt>Result</dt>
          <dd>{resultWord(reason, status)}</dd>
          <dt>After</dt>
          <dd>{duration(latencyMs)}</dd>
        </dl>
      </div>
      {answer === undefined ? (
        <p className="dim">No body is kept of this answer.</p>
      ) : (
        <CodeBlock code={answer} title="Start of the body" label="What the endpoint answered" />
      )}
    </>
  );
}

function NothingYet() {
  return (
    <div className="box">
      <EmptyState title="Nothing was sent yet">Attempts appear here as they are made.</EmptyState>
    </div>
  );
}
