import { type CSSProperties, useMemo, useState } from 'react';
import { Button } from '../../ui/controls.tsx';
import { bytes, duration, exactNumber } from '../../ui/format.ts';
import { StateMark, toneOf } from '../../ui/state-mark.tsx';
import { Clock } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { WayStep } from '../../ui/way.tsx';
import { NextTry } from './next-try.tsx';
import type { AcceptedEvent, DeliveryTrace } from './queries.ts';
import { reasonSentence, resultWord } from './reasons.ts';
import { storedSize } from './received.ts';
import { SkippedSteps } from './skipped-steps.tsx';
import { labelsByDestination, mostTelling, type WayBar, type WayLane, wayOf } from './way.ts';
import '../../ui/table.css';
import './event-way.css';

/** Most deliveries that are drawn at first: an event may have a thousand. */
const MOST = 24;

/** Draws the course of an event from its arrival on, with every attempt to scale. */
export function EventWay({ entry }: { readonly entry: AcceptedEvent }) {
  const { lanes, span, ticks } = useMemo(() => wayOf(entry), [entry]);
  const labels = useMemo(() => labelsByDestination(entry.deliveries), [entry]);
  const [isWhole, setIsWhole] = useState(false);
  const shown = isWhole ? lanes : mostTelling(lanes, MOST);
  const dated = (entry.event as { timestamp?: string }).timestamp;
  return (
    <section className="box bleed" aria-label="What became of it">
      <ol className="way">
        <WayStep time={<Clock at={entry.receivedAt} isBare />} state="accepted" what="received">
          <span className="soft">
            from {visibleLine(entry.source)} · {bytes(storedSize(entry.event))}
            {dated !== undefined && (
              <>
                {' · dated '}
                <Clock at={dated} />
              </>
            )}
          </span>
        </WayStep>
        {shown.map((lane) => (
          <DeliverySteps
            key={lane.delivery.id}
            lane={lane}
            labels={labels.get(lane.delivery.destination) ?? new Map()}
          />
        ))}
        <SkippedSteps skipped={entry.skipped} />
        <li className="axis" aria-hidden="true">
          <span className="t" />
          <span />
          <span />
          <span className="lane">
            {ticks.map((tick) => (
              <span key={tick} className="ax" style={placed({ start: tick / span })}>
                {duration(tick)}
              </span>
            ))}
          </span>
        </li>
      </ol>
      {shown.length < lanes.length && (
        <div className="tfoot">
          <span>
            {exactNumber(shown.length)} of {exactNumber(lanes.length)} deliveries, those that are not
            delivered first
          </span>
          <Button kind="quiet" isSmall onClick={() => setIsWhole(true)}>
            Show all
          </Button>
        </div>
      )}
    </section>
  );
}

interface DeliveryStepsProps {
  readonly lane: WayLane;
  /** Labels of endpoints beside the name of their destination. */
  readonly labels: ReadonlyMap<string, string>;
}

function DeliverySteps({ lane: { delivery, bars }, labels }: DeliveryStepsProps) {
  const name = visibleLine(delivery.destination, 40);
  return (
    <>
      {bars.map((bar, index) => {
        const { endpoint, startedAt } = bar.attempt;
        const isFirst = index === 0;
        const isOther = bars[index - 1]?.attempt.endpoint !== endpoint;
        return (
          <BarStep
            key={`${startedAt} ${endpoint}`}
            bar={bar}
            name={isFirst ? name : ''}
            label={isOther ? visibleLine(labels.get(endpoint) ?? '', 60) : ''}
          />
        );
      })}
      {delivery.state !== 'delivered' && (
        <NextStep delivery={delivery} name={bars.length === 0 ? name : ''} />
      )}
    </>
  );
}

interface BarStepProps {
  readonly bar: WayBar;
  /** Name of the destination; empty when the step before has the same. */
  readonly name: string;
  /** Label of the endpoint, where it has to be told from others. */
  readonly label: string;
}

function BarStep({ bar, name, label }: BarStepProps) {
  const { attempt, after, start, length, waitedFrom } = bar;
  const tone = toneOf(attempt.outcome, 1);
  const result = resultWord(attempt.reason, attempt.status);
  return (
    <li>
      <span className="t">+{duration(after)}</span>
      <span className="d">
        <StateMark state={attempt.outcome} label={null} />
      </span>
      <span className="what clip" title={visibleLine(attempt.endpoint)}>
        {name !== '' && <span className="med">{name}</span>}
        {label !== '' && <span className="dim endpoint">{label}</span>}
      </span>
      <span className="lane">
        {waitedFrom !== undefined && (
          <span className="bar gap" style={placed({ start: waitedFrom, length: start - waitedFrom })} />
        )}
        <span className={`bar ${tone}`} style={placed({ start, length })} />
        <span
          className="lt num soft"
          style={placed({ start: start + length })}
          title={visibleLine(attempt.endpoint)}
        >
          <b className={tone}>{result}</b> in {duration(attempt.latencyMs)}
        </span>
      </span>
    </li>
  );
}

/** Position and length as shares of the whole time: the style sheet knows the width of the lane. */
function placed({ start, length = 0 }: { readonly start: number; readonly length?: number }): CSSProperties {
  return { '--start': start.toFixed(4), '--length': length.toFixed(4) } as CSSProperties;
}

/** Shows what happens next, or why nothing does. */
function NextStep({ delivery, name }: { readonly delivery: DeliveryTrace; readonly name: string }) {
  const { destination, state, reason, note, nextAttemptAt } = delivery;
  if (state === 'dead') {
    return (
      <WayStep state="dead" what={name}>
        dead letter: {reasonSentence(reason ?? 'unknown')}
      </WayStep>
    );
  }
  if (state === 'dropped') {
    return (
      <WayStep state="dropped" what={name}>
        dropped: {note === undefined ? reasonSentence(reason ?? 'unknown') : visibleLine(note)}
      </WayStep>
    );
  }
  return (
    <WayStep time="now" state={state} what={name}>
      <NextTry destination={destination} at={nextAttemptAt} />
    </WayStep>
  );
}
