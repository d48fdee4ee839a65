"""The worker: which connectors there are, which tasks run here, and what is known of them.

settings       the worker's properties file, with Kafka Connect's names
config_state   connectors, their tasks and their target states, in Connect's record format
config_store   where these records are: a topic that one leader writes, or memory
status_state   how connectors and tasks are, in Connect's record format
status_store   where that is: a topic, or memory
assignment     which worker runs which task
membership     the group of workers, and its leader
planning       the leader's part: it asks connectors for their tasks
task_keeper    keeps one task as it should be: runs it, restarts it, stops it
worker         all of it together
operations     what the REST interface does: create, change, pause, restart, offsets
secrets        references in configurations, and what is hidden in answers
engines        which engine runs the tasks
preview        what the next records would look like
metrics        figures under the names of Connect's dashboards
server         the process: worker and REST interface
"""
