import { Chart } from '../ui/chart.tsx';
import { CodeBlock } from '../ui/code-block.tsx';
import { EmptyState, Failure, Notice } from '../ui/empty-state.tsx';
import { JsonView } from '../ui/json-view.tsx';
import { Page, Section } from '../ui/page.tsx';
import { Sparkline } from '../ui/sparkline.tsx';
import { Badge, StateMark } from '../ui/state-mark.tsx';
import { Num, RelativeTime } from '../ui/time.tsx';
import { Controls, Lists } from './component-samples.tsx';

const STATES = [
  'delivered',
  'retrying',
  'failing',
  'refusing',
  'dead',
  'dropped',
  'pending',
  'skipped',
  'paused',
  'discarded',
  'unusual',
  'duplicate',
] as const;

const WAVE = Array.from({ length: 60 }, (_, index) => 40 + 30 * Math.sin(index / 7));

const TIMES = WAVE.map((_, index) => 1_790_000_000_000 + index * 60_000);

/** Shows every part of the design system once, in the present theme. */
export function ComponentsPage() {
  return (
    <Page title="Components" about={<span className="dim">every part once, in the theme you have</span>}>
      <div className="two">
        <States />
        <Controls />
        <Lists />
        <Messages />
        <Section title="Charts" about="shared cursor, lines differ by dash">
          <Chart
            title="Latency"
            unit="ms"
            group="components"
            times={TIMES}
            format={(value) => value.toFixed(0)}
            series={[
              { label: 'p50', tone: 'water', values: WAVE, isFilled: true },
              { label: 'p99', tone: 'warn', values: WAVE.map((value) => value * 1.6), dash: [4, 3] },
            ]}
          />
        </Section>
        <Section title="Code">
          <div className="stack-s">
            <JsonView
              label="an event"
              value={{ type: 'track', event: 'Order Placed', properties: { total: 9 } }}
            />
            <CodeBlock code="npx millrace status" />
          </div>
        </Section>
      </div>
    </Page>
  );
}

function States() {
  return (
    <Section title="States" about="a mark and a word">
      <div className="box">
        <div className="pad stack-s">
          <div className="rowx">
            {STATES.map((state) => (
              <StateMark key={state} state={state} />
            ))}
          </div>
          <div className="rowx">
            <Badge state="healthy" />
            <Badge state="failing" label="failing for 14 min" />
            <Badge state="refusing" />
            <Badge state="running" />
          </div>
          <div className="rowx">
            <Num value={8_412_906} />
            <RelativeTime at={TIMES[0] ?? 0} />
            <Sparkline values={WAVE} />
          </div>
        </div>
      </div>
    </Section>
  );
}

function Messages() {
  return (
    <Section title="Messages">
      <div className="stack-s">
        <Notice>The change is in force. Nothing was lost.</Notice>
        <Notice tone="warn">crm is failing. The replay waits until it answers.</Notice>
        <Failure error={new Error('The server does not answer. Is it running?')} onRetry={() => {}} />
        <div className="box">
          <EmptyState
            title="No dead letters"
            action={<CodeBlock code="npx millrace deliveries --state dead" />}
          >
            A delivery comes here when an endpoint refuses it or stays away for four hours.
          </EmptyState>
        </div>
      </div>
    </Section>
  );
}
