import { useState } from 'react';
import { Button } from '../../ui/controls.tsx';
import { dateTime } from '../../ui/format.ts';
import { Section } from '../../ui/page.tsx';
import { usePreferences } from '../../ui/preferences.ts';
import { Clock, DayTime } from '../../ui/time.tsx';
import { visibleLine } from '../../ui/visible-text.ts';
import { WayStep } from '../../ui/way.tsx';
import type { Regulation } from './receipt.ts';
import { type RegulationStep, stepsOf } from './regulation-steps.ts';
import '../../ui/table.css';

/** Most steps that are shown at first: a hundred endpoints may have to confirm. */
const MOST = 12;

/** Shows the steps of a regulation so far, each with its time. */
export function RegulationWay({ regulation }: { readonly regulation: Regulation }) {
  const [isWhole, setIsWhole] = useState(false);
  const steps = stepsOf(regulation);
  const first = steps[0]?.at;
  const left = isWhole ? 0 : Math.max(0, steps.length - MOST);
  // The end is the last one, and always shown.
  const shown = left === 0 ? steps : [...steps.slice(0, MOST - 1), ...steps.slice(-1)];
  return (
    <Section title="What happened" about={first === undefined ? undefined : <DayTime at={first} />}>
      <div className="box bleed">
        <ol className="way">
          {shown.map((step, nth) => (
            <WayStep
              // biome-ignore lint/suspicious/noArrayIndexKey: steps have no names, and keep their places.
              key={nth}
              time={<StepTime step={step} />}
              state={step.state}
              what={step.what}
            >
              <span className="soft">{visibleLine(step.text, 240)}</span>
            </WayStep>
          ))}
        </ol>
        {left > 0 && (
          <div className="tfoot">
            <Button kind="quiet" onClick={() => setIsWhole(true)}>
              Show {left} more
            </Button>
          </div>
        )}
      </div>
    </Section>
  );
}

/** Time of a step: a time of day for the first, the time since then for others. */
function StepTime({ step: { at, after } }: { readonly step: RegulationStep }) {
  const { zone } = usePreferences();
  if (at === undefined) return null;
  if (after === undefined) return <Clock at={at} isBare />;
  return (
    <time dateTime={at} title={dateTime(Date.parse(at), zone)}>
      {after}
    </time>
  );
}
