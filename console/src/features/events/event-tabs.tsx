import { CodeBlock } from '../../ui/code-block.tsx';
import { Select } from '../../ui/controls.tsx';
import { EmptyState, Notice } from '../../ui/empty-state.tsx';
import { duration } from '../../ui/format.ts';
import { Tabs } from '../../ui/tabs.tsx';
import type { AcceptedEvent, Attempt } from './queries.ts';
import { reasonSentence, resultWord } from './reasons.ts';
import { ReceivedCall } from './received-call.tsx';
import { SentRequest } from './sent-request.tsx';
import { labelsByDestination } from './way.ts';

interface EventTabsProps {
  readonly entry: AcceptedEvent;
  readonly tab: string;
  /** Number of the shown attempt, in the order of the list; absent: the last one. */
  readonly attempt: string | undefined;
  readonly onChange: (change: { readonly tab?: string; readonly attempt?: string }) => void;
}

interface Try {
  readonly label: string;
  readonly deliveryId: string;
  readonly destination: string;
  readonly attempt: Attempt;
}

/** Tabs for the received call, the sent requests and their answers. */
export function EventTabs({ entry, tab, attempt, onChange }: EventTabsProps) {
  const labels = labelsByDestination(entry.deliveries);
  const nameOf = (destination: string, endpoint: string): string =>
    `${destination} ${labels.get(destination)?.get(endpoint) ?? ''}`.trim();
  const tries = entry.deliveries.flatMap(({ id, destination, attempts }): Try[] =>
    attempts.map((one, index) => ({
      label: `${nameOf(destination, one.endpoint)} · try ${index + 1} of ${attempts.length}`,
      deliveryId: id,
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
          content: <ReceivedCall entry={entry} />,
        },
        {
          value: 'sent',
          label: 'Sent',
          content: shown === undefined ? <NothingYet /> : <SentRequest {...shown} />,
        },
        { value: 'answered', label: 'Answered', content: <Answered shown={shown} /> },
      ]}
    />
  );
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
      {answer !== undefined && (
        <CodeBlock code={answer} title="Beginning of the body" label="What the endpoint answered" />
      )}
      <p className="hint">
        {answer === undefined && 'No body is kept of this answer. '}Kept of an answer: its status, the time it
        took, and the beginning of the body of one that was not accepted; no headers.
      </p>
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
