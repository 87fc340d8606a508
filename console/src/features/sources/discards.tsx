import { useQuery } from '@tanstack/react-query';
import { statusQuery } from '../../api/queries.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { EmptyState, Failure, SkeletonRows } from '../../ui/empty-state.tsx';
import { exactNumber, plural } from '../../ui/format.ts';
import { RelativeTime } from '../../ui/time.tsx';
import { own } from '../destinations/rows.ts';
import { adviceFor } from '../events/reasons.ts';
import { type DiscardSample, discardsQuery } from './queries.ts';

/** Discarded calls of a source, with the last ones of each reason. */
export function Discards({ name }: { readonly name: string }) {
  const { data: status } = useQuery(statusQuery);
  const discards = useQuery(discardsQuery);
  if (discards.isPending) return <SkeletonRows rows={3} />;
  if (discards.error !== null) return <Failure error={discards.error} />;
  const counts = own(status?.sources, name)?.discarded ?? {};
  const reasons = Object.entries(counts).sort(([, one], [, other]) => other - one);
  if (reasons.length === 0) {
    return (
      <div className="box">
        <EmptyState title="Nothing was discarded">
          A call that is no valid event is counted here with its reason, and the last ones of every reason are
          shown.
        </EmptyState>
      </div>
    );
  }
  const samplesOf = (reason: string) =>
    discards.data.filter((one) => one.source === name && one.reason === reason);
  return (
    <div className="stack">
      {reasons.map(([reason, count]) => (
        <ReasonSection key={reason} reason={reason} count={count} samples={samplesOf(reason)} />
      ))}
    </div>
  );
}

interface ReasonSectionProps {
  readonly reason: string;
  readonly count: number;
  readonly samples: readonly DiscardSample[];
}

function ReasonSection({ reason, count, samples }: ReasonSectionProps) {
  const { cause, action } = adviceFor(reason);
  return (
    <section className="stack-s">
      <div className="sec">
        <h2 className="mono">{reason}</h2>
        <span className="dim num">{plural(count, 'call')}</span>
      </div>
      <p>
        {cause} <span className="soft">{action}</span>
      </p>
      {samples.length > 0 && (
        <CodeBlock
          code={samples.map(({ call, cut }) => (cut ? `${call} …` : call)).join('\n')}
          label={`Discarded calls, ${reason}`}
          title={
            <span>
              {samples.length === 1 ? 'The last one, ' : `The last ${samples.length}, the latest `}
              <RelativeTime at={samples[0]?.at ?? 0} />
            </span>
          }
        />
      )}
      {samples.length === 0 && (
        <p className="dim">
          None of the {exactNumber(count)} is kept: samples last until the server restarts.
        </p>
      )}
    </section>
  );
}
