import { MoreHorizontal, Plus, Send } from 'lucide-react';
import { useState } from 'react';
import { Chart } from '../ui/chart.tsx';
import { CodeBlock } from '../ui/code-block.tsx';
import { Button, CopyButton, Field, Segmented, Select, TextInput } from '../ui/controls.tsx';
import { ConfirmDialog } from '../ui/dialog.tsx';
import { EmptyState, Failure, Notice, SkeletonRows } from '../ui/empty-state.tsx';
import { JsonView } from '../ui/json-view.tsx';
import { Menu, MenuItem } from '../ui/menu.tsx';
import { Page, Section } from '../ui/page.tsx';
import { Sparkline } from '../ui/sparkline.tsx';
import { Badge, StateMark } from '../ui/state-mark.tsx';
import { Table } from '../ui/table.tsx';
import { Tabs } from '../ui/tabs.tsx';
import { Num, RelativeTime } from '../ui/time.tsx';
import { toast } from '../ui/toast.tsx';

const STATES = [
  'delivered',
  'retrying',
  'dead',
  'pending',
  'skipped',
  'paused',
  'discarded',
  'duplicate',
] as const;
const WAVE = Array.from({ length: 60 }, (_, index) => 40 + 30 * Math.sin(index / 7));
const TIMES = WAVE.map((_, index) => 1_790_000_000_000 + index * 60_000);
const ROWS = [
  { name: 'crm', waits: 41_882 },
  { name: 'warehouse', waits: 0 },
];

/** Every part of the design system once, in the theme that is on. */
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
            <Badge state="dead" label="refusing" />
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

function Controls() {
  const [range, setRange] = useState('1h');
  const [tab, setTab] = useState('sent');
  const [isAsking, setIsAsking] = useState(false);
  return (
    <Section title="Controls">
      <div className="box">
        <div className="pad stack-s">
          <div className="rowx">
            <Button kind="primary">Save</Button>
            <Button>
              <Send aria-hidden />
              Send test
            </Button>
            <Button kind="quiet">Cancel</Button>
            <Button kind="danger" onClick={() => setIsAsking(true)}>
              Delete…
            </Button>
            <Button isSmall>
              <Plus aria-hidden />
              Small
            </Button>
            <Button disabled>Not allowed</Button>
            <Menu
              trigger={
                <Button isIcon aria-label="More">
                  <MoreHorizontal aria-hidden />
                </Button>
              }
            >
              <MenuItem onSelect={() => toast('crm is paused', () => toast('crm runs again'))}>
                Pause
              </MenuItem>
              <MenuItem onSelect={() => setIsAsking(true)} isDangerous>
                Delete…
              </MenuItem>
            </Menu>
          </div>
          <div className="rowx">
            <Segmented
              label="Range"
              value={range}
              onChange={setRange}
              options={[
                { value: '1h', label: '1 h' },
                { value: '24h', label: '24 h' },
              ]}
            />
            <Select
              aria-label="Source"
              value=""
              onChange={() => {}}
              options={[
                { value: '', label: 'Any source' },
                { value: 'web', label: 'website' },
              ]}
            />
            <CopyButton text="copied" />
          </div>
          <Field label="Rate limit" error="At least 1 request a second. Leave it empty for no limit.">
            {(control) => <TextInput {...control} defaultValue="0" />}
          </Field>
          <Tabs
            label="Views"
            value={tab}
            onChange={setTab}
            tabs={[
              { value: 'received', label: 'Received', content: 'What the client sent.' },
              { value: 'sent', label: 'Sent', content: 'What the endpoint got.' },
            ]}
          />
        </div>
      </div>
      {isAsking && (
        <ConfirmDialog
          title="Remove partner-feed?"
          action="Remove partner-feed"
          typed="partner-feed"
          isDangerous
          onConfirm={async () => toast('partner-feed is removed')}
          onClose={() => setIsAsking(false)}
        >
          1,206 deliveries still wait. They become dead letters and can be redelivered.
        </ConfirmDialog>
      )}
    </Section>
  );
}

function Lists() {
  return (
    <Section title="Lists" about="j, k, Enter">
      <div className="stack-s">
        <Table
          label="Destinations"
          rows={ROWS}
          rowId={({ name }) => name}
          columns={[
            {
              id: 'name',
              header: 'Name',
              className: 'w',
              cell: ({ name }) => name,
              sort: ({ name }) => name,
            },
            {
              id: 'waits',
              header: 'Waits',
              className: 'r',
              cell: ({ waits }) => <Num value={waits} />,
              sort: ({ waits }) => waits,
            },
          ]}
        />
        <div className="box">
          <SkeletonRows rows={3} />
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
