import { MoreHorizontal, Plus, Send } from 'lucide-react';
import { useState } from 'react';
import { Button, CopyButton, Field, Segmented, Select, TextInput } from '../ui/controls.tsx';
import { ConfirmDialog } from '../ui/dialog.tsx';
import { SkeletonRows } from '../ui/empty-state.tsx';
import { Menu, MenuItem } from '../ui/menu.tsx';
import { Section } from '../ui/page.tsx';
import { Table } from '../ui/table.tsx';
import { Tabs } from '../ui/tabs.tsx';
import { Num } from '../ui/time.tsx';
import { toast } from '../ui/toast.tsx';

const ROWS = [
  { name: 'crm', waits: 41_882 },
  { name: 'warehouse', waits: 0 },
];

export function Controls() {
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

export function Lists() {
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
