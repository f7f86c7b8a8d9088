# SPDX-License-Identifier: GPL-3.0-or-later
"""The Node driver: connecting in every way, staying quiet when idle, closing cleanly, watching."""

import json

import pytest

import node_tools

HEAD = """
const { MongoClient } = require('mongodb');
const uri = process.argv[2];
async function main() {
%s
}
main().then(r => console.log(JSON.stringify(r))).catch(e => { console.error(e); process.exit(1); });
"""


def run(body, tmp_path, *arguments):
    return json.loads(node_tools.node(HEAD % body, tmp_path, *arguments).splitlines()[-1])


def base_uri(srv):
    return srv.uri.split("/?")[0]


CONNECT = """
  const client = new MongoClient(uri);
  const warnings = [];
  process.on('warning', w => warnings.push(String(w)));
  await client.connect();
  const hello = await client.db('admin').command({ hello: 1 });
  const type = client.topology.description.type;
  await client.db('test').command({ ping: 1 });
  await client.close();
  return { type, primary: hello.isWritablePrimary, warnings };
"""


@pytest.mark.parametrize(
    "tail, kind",
    [
        ("/?replicaSet=rs0", "ReplicaSetWithPrimary"),
        ("/", "ReplicaSetWithPrimary"),
        ("/?directConnection=true", "Single"),
        ("/?replicaSet=rs0&directConnection=true", "Single"),
    ],
)
def test_connects_and_closes(srv, tmp_path, tail, kind):
    got = run(CONNECT, tmp_path, base_uri(srv) + tail)
    assert got == {"type": kind, "primary": True, "warnings": []}


IDLE = """
  const client = new MongoClient(uri, { monitorCommands: true });
  let started = 0, succeeded = 0, failed = 0;
  client.on('serverHeartbeatStarted', () => started++);
  client.on('serverHeartbeatSucceeded', () => succeeded++);
  client.on('serverHeartbeatFailed', () => failed++);
  await client.connect();
  await client.db('test').command({ ping: 1 });
  const before = started;
  await new Promise(done => setTimeout(done, 4000));
  const during = started - before;
  await client.close();
  return { during, failed, alive: succeeded > 0 };
"""


@pytest.mark.slow
def test_wp_03_idle_client_is_quiet(srv, client, tmp_path):
    """An awaited hello every 10 s, not a spinning heartbeat: at most 2 within 4 s, seen by both."""
    before = client.admin.command("serverStatus")["network"]["numRequests"]
    got = run(IDLE, tmp_path, srv.uri)
    after = client.admin.command("serverStatus")["network"]["numRequests"]
    assert got["during"] <= 2
    assert got["failed"] == 0
    assert got["alive"] is True
    assert after - before < 60


WATCH = """
  const client = new MongoClient(uri);
  const coll = client.db(process.argv[3]).collection('c');
  await coll.insertOne({ _id: 0 });
  const stream = coll.watch([{ $match: { operationType: { $ne: 'delete' } } }],
                            { fullDocument: 'updateLookup' });
  const seen = [];
  const done = new Promise((resolve, reject) => {
    stream.on('error', reject);
    stream.on('change', e => { seen.push(e); if (seen.length === 2) resolve(); });
  });
  await new Promise(r => stream.cursor ? stream.cursor.once('init', r) : setTimeout(r, 0));
  await coll.insertOne({ _id: 1 });
  await coll.deleteOne({ _id: 0 });
  await coll.updateOne({ _id: 1 }, { $set: { x: 1 } });
  await done;
  await stream.close();
  const again = coll.watch([], { resumeAfter: seen[0]._id });
  const next = await again.next();
  await again.close();
  await client.close();
  return [seen.map(e => e.operationType), seen[1].fullDocument, next.operationType,
          typeof seen[0]._id._data];
"""


def test_watch(srv, db, tmp_path):
    got = run(WATCH, tmp_path, srv.uri, db.name)
    assert got == [["insert", "update"], {"_id": 1, "x": 1}, "delete", "string"]


CRUD = """
  const client = new MongoClient(uri);
  const coll = client.db(process.argv[3]).collection('c');
  const many = await coll.insertMany([...Array(250).keys()].map(i => ({ _id: i, n: i % 10 })));
  const all = await coll.find({ n: 3 }).sort({ _id: -1 }).batchSize(7).toArray();
  const one = await coll.findOneAndUpdate({ _id: 5 }, { $inc: { n: 100 } },
                                          { returnDocument: 'after' });
  const count = await coll.countDocuments({ n: { $lt: 5 } });
  let duplicate = 0;
  try { await coll.insertOne({ _id: 5 }); } catch (e) { duplicate = e.code; }
  await client.close();
  return [many.insertedCount, all.length, all[0]._id, one.n, count, duplicate];
"""


def test_crud(srv, db, tmp_path):
    assert run(CRUD, tmp_path, srv.uri, db.name) == [250, 25, 243, 105, 125, 11000]


TRANSACTION = """
  const client = new MongoClient(uri);
  const c = client.db(process.argv[3]).collection('c');
  await c.insertOne({ _id: 1, n: 0 });
  let attempts = 0, firstSaw, secondCode, secondLabels;
  const first = client.startSession();
  first.startTransaction();
  await c.updateOne({ _id: 1 }, { $inc: { n: 1 } }, { session: first });
  firstSaw = (await c.findOne({ _id: 1 }, { session: first })).n;
  await client.withSession(session => session.withTransaction(async () => {
    attempts++;
    try {
      await c.updateOne({ _id: 1 }, { $inc: { n: 10 } }, { session });
    } catch (e) {
      secondCode = e.code;
      secondLabels = e.errorLabels;
      await first.commitTransaction();
      throw e;
    }
  }));
  await first.endSession();
  const end = (await c.findOne({ _id: 1 })).n;
  await client.close();
  return { attempts, firstSaw, secondCode, secondLabels, end };
"""


def test_with_transaction_retries_a_conflict(srv, db, tmp_path):
    assert run(TRANSACTION, tmp_path, srv.uri, db.name) == {
        "attempts": 2, "firstSaw": 1, "secondCode": 112,
        "secondLabels": ["TransientTransactionError"], "end": 11}


CLIENT_BULK_WRITE = """
  const client = new MongoClient(uri);
  const ns = n => `${process.argv[3]}.${n}`;
  const models = [...Array(300).keys()].map(
    i => ({ namespace: ns(i % 2 ? 'odd' : 'even'), name: 'insertOne', document: { _id: i } }));
  models.push({ namespace: ns('odd'), name: 'updateMany', filter: { _id: { $lt: 10 } },
                update: { $set: { small: true } } });
  models.push({ namespace: ns('new'), name: 'replaceOne', filter: { _id: 'x' },
                replacement: { y: 1 }, upsert: true });
  models.push({ namespace: ns('even'), name: 'deleteMany', filter: {} });
  const r = await client.bulkWrite(models, { verboseResults: true });
  let failed;
  try {
    await client.bulkWrite([{ namespace: ns('new'), name: 'insertOne', document: { _id: 'x' } }]);
  } catch (e) { failed = e.writeErrors.get(0).code; }
  await client.close();
  return [r.insertedCount, r.modifiedCount, r.upsertedCount, r.deletedCount,
          r.updateResults.get(301).upsertedId, r.insertResults.size, failed];
"""


def test_client_bulk_write(srv, db, tmp_path):
    assert run(CLIENT_BULK_WRITE, tmp_path, srv.uri, db.name) == [300, 5, 1, 150, "x", 300, 11000]
